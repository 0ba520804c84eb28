/*
 * redlatch: one correct distributed lock on Redis and Valkey.
 *
 * A lease is not a proof: a process that stalls longer than its ttl comes back believing in a lock that has another
 * holder. Call redlatch_lock_check before every step that must not happen twice, and let the protected resource refuse
 * a lower redlatch_lock_fence than it has seen.
 *
 *     #include <redlatch.h>
 *
 *     redlatch_client *client = NULL;
 *     redlatch_lock *lock = NULL;
 *     uint64_t fence = 0;
 *     int32_t status = redlatch_client_open("redis://127.0.0.1:6379/0", REDLATCH_NUL_TERMINATED, NULL, &client);
 *     if (status == REDLATCH_OK)
 *         status = redlatch_lock_new(client, "order:17", REDLATCH_NUL_TERMINATED, NULL, &lock);
 *     if (status == REDLATCH_OK)
 *         status = redlatch_lock_acquire(lock, 5000);
 *     if (status == REDLATCH_OK) {
 *         redlatch_lock_fence(lock, &fence);
 *         ... write the fence to the protected row, where it has no higher one ...
 *         if (redlatch_lock_check(lock) == REDLATCH_OK) {
 *             ... write the result, where the row still has this fence ...
 *         }
 *         status = redlatch_lock_release(lock);
 *     }
 *     redlatch_lock_free(lock);
 *     redlatch_client_free(client);
 *
 * CONVENTIONS
 *
 * Statuses. Functions that can fail return an int32_t: 0, REDLATCH_OK, is done; a positive number is an ordinary outcome
 * that is not "done", such as REDLATCH_BUSY; a negative one is an error. Compare with REDLATCH_OK where the lock must be
 * held: a test for "no error" takes REDLATCH_BUSY for success. A later version may return a status that this header does
 * not have: treat it by its sign. A number is never used again for anything else. After an error
 * redlatch_last_error_message has a sentence about it, for the same thread, until its next error.
 *
 * Handles. redlatch_client, redlatch_lock, redlatch_lease and redlatch_cancel are made by the library and freed by the
 * function that is named after them, once, in any order: a lock keeps its client going. What is held belongs to client,
 * thread and name, not to the handle: freeing a lock handle releases nothing, and two handles of one client and name
 * are the same lock. A lease handle is the exception: it owns its lease. The client ends with redlatch_client_close,
 * with which what is held is lost and its keys lapse by their ttl, or when the last of its handles is freed, which
 * releases what is held.
 *
 * Outputs. A place for a result is written when the status is REDLATCH_OK only, with two exceptions: a place for a
 * handle, or for a text that the caller frees, gets NULL otherwise; and needed is written with REDLATCH_TRUNCATED too.
 *
 * NULL. Where a pointer must not be NULL, NULL gives REDLATCH_INVALID_ARGUMENT, and is never followed. It may be NULL
 * where this header says so: options (the defaults), callbacks (none), user_data, a buffer of capacity 0, needed, and
 * whatever is freed.
 *
 * Threads. Any thread may use any handle, several at once; only freeing needs that no other thread uses the handle any
 * more. A lock belongs to the thread that acquired it: another thread that releases it gets REDLATCH_NOT_HELD. A thread
 * that ends while it holds a lock has it released in the background, and a warning is logged. To hand a lock to another
 * thread or process, use a lease. The main thread ends so with exit(), before static destructors run. The library
 * starts threads of its own, when first needed, which end with the client; a signal handler of the program's may run on
 * them. No function raises SIGPIPE, whether the program ignores it or not. No function of the library is for signal
 * handlers.
 *
 * Strings. A text that goes in is a pointer and its length in bytes, without a NUL, or REDLATCH_NUL_TERMINATED for one
 * that ends with a NUL. It is UTF-8, which is checked, and copied before the function returns; names may contain NULs.
 * A text that comes out goes into a buffer of the caller's, and the size that it needs is reported, or it is freed with
 * redlatch_string_free. Texts that the library returns as const char * are static. Tokens and passwords appear in no
 * message and no log.
 *
 * Time. Milliseconds in int64_t, with names that end in _ms. A wait is from 0 up, or REDLATCH_WAIT_FOREVER; every other
 * negative one is REDLATCH_INVALID_ARGUMENT. Deadlines are kept by a clock that counts the time a machine is suspended.
 *
 * Options. A struct of options begins with its size: fill it with its init function, then change fields. So a program
 * runs with a later library whose struct has more fields, and, while those are 0, with an earlier one.
 *
 * Callbacks. An on_lost callback runs on a thread of the client's, within milliseconds of the deadline; those of one
 * client run one after another, so it should be short. It may call any function of redlatch; two callbacks that close
 * each other's client wait for each other for ever. destroy runs on any thread:
 * inside a call of the program's, or on a thread of the library's; it may call any function of redlatch too. The
 * callback of redlatch_check_server runs inside that call, and may call any as well. A log callback must call none. No
 * callback may leave by a C++ exception or longjmp.
 *
 * Fork. A forked child holds nothing of what its parent held: there a lease handle is lost as REDLATCH_LOST_FORKED, a
 * lock is REDLATCH_NOT_HELD, and releasing them touches no key. The child may use its copies of the handles, and gets
 * connections and threads of its own. A handle with an on_lost callback, and a lease handle, must not be in use by
 * another thread at the moment of the fork, if the child is to use it. destroy is not called in the child for what the
 * parent held.
 *
 * Panics. A defect that panics inside the library ends the call with REDLATCH_INTERNAL, never the program; its text
 * goes to stderr too.
 *
 * Unloading. The shared library stays loaded: dlclose does nothing. A plugin that is linked with libredlatch.a must be
 * linked with -Wl,-z,nodelete itself.
 *
 * Versions. The SONAME is libredlatch.so.0. Until version 1.0 an incompatible change raises it; functions, statuses and
 * option fields that are added do not. Each function says since when it exists.
 */

#ifndef REDLATCH_H
#define REDLATCH_H

/* Generated from ffi-c/ by `make header`: changes go there. */

#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header.
 */
#define REDLATCH_VERSION "0.1.0"
#define REDLATCH_VERSION_MAJOR 0
#define REDLATCH_VERSION_MINOR 1
#define REDLATCH_VERSION_PATCH 0

/**
 * In place of the length of a text: as far as its NUL.
 */
#define REDLATCH_NUL_TERMINATED ((size_t)-1)

/**
 * The compiler warns where the status is not looked at.
 */
#if defined(__GNUC__) || defined(__clang__)
#define REDLATCH_MUST_USE __attribute__((warn_unused_result))
#else
#define REDLATCH_MUST_USE
#endif

/**
 * Done; of an acquire: the lock is held.
 */
#define REDLATCH_OK 0

/**
 * Someone else has the lock, and the call did not wait. NOT held.
 */
#define REDLATCH_BUSY 1

/**
 * Someone else had the lock for the whole wait. NOT held.
 */
#define REDLATCH_TIMED_OUT 2

/**
 * An inner release: the thread still holds the lock.
 */
#define REDLATCH_STILL_HELD 3

/**
 * Released as far as this process is concerned, but the server did not confirm it in time. The library goes on
 * releasing in the background; at worst others wait until the ttl has passed.
 */
#define REDLATCH_UNCONFIRMED 4

/**
 * The wait was called off by redlatch_cancel_fire. NOT held.
 */
#define REDLATCH_CANCELLED 5

/**
 * Nobody has the lock (inspect, force_release), or the token does not have it any more (adopt).
 */
#define REDLATCH_NOT_FOUND 6

/**
 * The buffer is too small for the text; the size that it needs is reported.
 */
#define REDLATCH_TRUNCATED 7

/**
 * The call itself is wrong: NULL where a value must be, text that is not UTF-8, a negative wait, an options
 * struct that was not initialised. Nothing was done.
 */
#define REDLATCH_INVALID_ARGUMENT (-1)

/**
 * A URL, name, token or option that is refused; the message names it and what would be accepted. Nothing was sent.
 */
#define REDLATCH_CONFIG (-2)

/**
 * The lease ended while the caller still had it, and someone else may have the lock: stop the work that it
 * protected. redlatch_last_error_lost_reason says why.
 */
#define REDLATCH_LOST (-3)

/**
 * The calling thread (or this lease handle) does not hold the lock.
 */
#define REDLATCH_NOT_HELD (-4)

/**
 * No usable answer from the server within the caller's time. Whether the lock is free is unknown. Can be retried.
 */
#define REDLATCH_UNAVAILABLE (-5)

/**
 * The server refuses the user name or password of the URL, or wants one.
 */
#define REDLATCH_AUTHENTICATION (-6)

/**
 * The server's access rules forbid a command or key that the lock needs.
 */
#define REDLATCH_PERMISSION (-7)

/**
 * A key that the lock needs holds foreign data. Nothing was written.
 */
#define REDLATCH_KEY_TYPE (-8)

/**
 * The server answers, but cannot do what the lock needs. Retrying does not help.
 */
#define REDLATCH_INCOMPATIBLE (-9)

/**
 * redlatch_client_close was called on the client.
 */
#define REDLATCH_CLOSED (-10)

/**
 * Too few replicas acknowledged the grant (option min_replicas), so it was given up. Can be retried.
 */
#define REDLATCH_NOT_REPLICATED (-11)

/**
 * The lease handle has the lock already, another thread uses it at this moment, or the log goes elsewhere.
 */
#define REDLATCH_IN_USE (-12)

/**
 * A defect inside redlatch, such as a panic, which ended this call and nothing else. Please report it.
 */
#define REDLATCH_INTERNAL (-99)

/**
 * Not lost.
 */
#define REDLATCH_LOST_NONE 0

/**
 * The deadline passed without a successful renewal: the server was away or the process stalled.
 */
#define REDLATCH_LOST_EXPIRED 1

/**
 * The server no longer has the holder's token under the key: deleted, evicted or taken over.
 */
#define REDLATCH_LOST_TAKEN 2

/**
 * max_hold was reached.
 */
#define REDLATCH_LOST_MAX_HOLD 3

/**
 * This process is a forked child; the lease belongs to its parent.
 */
#define REDLATCH_LOST_FORKED 4

/**
 * The client was closed.
 */
#define REDLATCH_LOST_CLOSED 5

/**
 * A defect inside redlatch ended it.
 */
#define REDLATCH_LOST_INTERNAL 6

/**
 * No limit to the wait; while the server is away, unavailable_after still ends it.
 */
#define REDLATCH_WAIT_FOREVER (-1)

/**
 * Good to know; also what could not be checked.
 */
#define REDLATCH_SEVERITY_INFO 1

/**
 * Locks work now. One failure that has to be expected, a restart, a failover or a clock that is set, can give a lock to two
 * holders or leave everyone without.
 */
#define REDLATCH_SEVERITY_WARNING 2

/**
 * Locks are unsafe as the server is run, or cannot be had at all.
 */
#define REDLATCH_SEVERITY_PROBLEM 3

/**
 * A buffer of this size takes every token, its NUL included.
 */
#define REDLATCH_TOKEN_SIZE 513

/**
 * For those who look into redlatch itself.
 */
#define REDLATCH_LOG_DEBUG 1

/**
 * Worth knowing.
 */
#define REDLATCH_LOG_INFO 2

/**
 * Something is not as it should be, and redlatch goes on.
 */
#define REDLATCH_LOG_WARN 3

/**
 * A lease was lost, or a defect was found.
 */
#define REDLATCH_LOG_ERROR 4

/**
 * Calls off waits, from another thread than the one that waits.
 */
typedef struct redlatch_cancel redlatch_cancel;

/**
 * A way to one Redis or Valkey server, shared by all threads.
 */
typedef struct redlatch_client redlatch_client;

/**
 * A lock that belongs to its handle: any thread may use and release it, and nobody re-enters it.
 */
typedef struct redlatch_lease redlatch_lease;

/**
 * A lock by name, re-entrant: what is held belongs to client, thread and name, so two handles of one name are the
 * same lock.
 */
typedef struct redlatch_lock redlatch_lock;

/**
 * Options of a client. Fill it with redlatch_client_options_init, then change what is to be different.
 *
 * A text that is NULL is not set; a length is the text's in bytes, or REDLATCH_NUL_TERMINATED, which init puts there.
 * redlatch_client_open copies what it needs.
 */
typedef struct redlatch_client_options {
  /**
   * Set by redlatch_client_options_init; leave it.
   */
  size_t size;
  /**
   * What stands before every name to make its key, at most 256 bytes; plain clients that share a key must use the
   * same. Defaults to "lock:".
   */
  const char *key_prefix;
  /**
   * Length of key_prefix.
   */
  size_t key_prefix_len;
  /**
   * A word that shows in tokens and redlatch_inspect, to tell workers apart: 1 to 64 ASCII letters, digits, '.',
   * '_', '-', '/'. Defaults to none.
   */
  const char *label;
  /**
   * Length of label.
   */
  size_t label_len;
  /**
   * Path of a PEM file with the authorities that may vouch for a rediss:// server; only these are trusted then.
   * Defaults to the platform's store.
   */
  const char *tls_ca;
  /**
   * Length of tls_ca.
   */
  size_t tls_ca_len;
  /**
   * Path of a PEM file with the certificate that this client shows to a rediss:// server, together with tls_key.
   * Defaults to none.
   */
  const char *tls_cert;
  /**
   * Length of tls_cert.
   */
  size_t tls_cert_len;
  /**
   * Path of a PEM file with the private key of tls_cert, not encrypted. Defaults to none.
   */
  const char *tls_key;
  /**
   * Length of tls_key.
   */
  size_t tls_key_len;
  /**
   * Limit of opening a connection, name lookup and login included, 10 to 60000 ms. Defaults to 1000.
   */
  int64_t connect_timeout_ms;
  /**
   * Limit of one request and its reply, 10 to 60000 ms. Defaults to 1000.
   */
  int64_t io_timeout_ms;
  /**
   * Limit of the wait for a free connection, 10 to 60000 ms. 0, the default: what is left of the call's time.
   */
  int64_t pool_timeout_ms;
  /**
   * Continuous outage after which an acquire without a limit gives up, 100 ms to 24 h. Defaults to 10000.
   */
  int64_t unavailable_after_ms;
  /**
   * How long the server keeps a lock's last fence after a grant, 1 s to 30 days. Defaults to 3600000.
   */
  int64_t fence_retention_ms;
  /**
   * How long a released lock stays reserved for the first waiter, 500 to 10000 ms. Defaults to 1000.
   */
  int64_t turn_ms;
  /**
   * How long the server waits for the acknowledgement of a grant by min_replicas, 10 to 60000 ms. Defaults to 100.
   */
  int64_t replica_timeout_ms;
  /**
   * How many replicas must acknowledge a grant before it is one, 0 to 16. Defaults to 0: none is asked.
   */
  uint32_t min_replicas;
  /**
   * Connections that callers share, 1 to 1024. Defaults to 8.
   */
  uint32_t pool_size;
  /**
   * Threads that renew leases, each with a connection of its own, 1 to 64. Defaults to 2.
   */
  uint32_t renewal_threads;
  /**
   * 0.
   */
  uint32_t reserved;
} redlatch_client_options;

/**
 * Options of a lock or lease. Fill it with redlatch_lock_options_init, then change what is to be different.
 *
 * While a thread holds a lock, the options of the handle that acquired it first apply until its last release.
 */
typedef struct redlatch_lock_options {
  /**
   * Set by redlatch_lock_options_init; leave it.
   */
  size_t size;
  /**
   * How long the lease lives without renewal, 100 ms to 24 h: after a crash of the holder others wait at most this
   * long. Defaults to 30000.
   */
  int64_t ttl_ms;
  /**
   * The longest time a lease is kept, whatever its holder does: then renewal stops and the lease is lost. From the
   * ttl to 365 days. 0, the default: no limit.
   */
  int64_t max_hold_ms;
  /**
   * Whether the lease is renewed in the background, every third of the ttl: 1, the default, or 0, with which it
   * ends after one ttl unless it is renewed by call.
   */
  int32_t auto_renew;
  /**
   * 0.
   */
  uint32_t reserved;
} redlatch_lock_options;

/**
 * Told of one finding: its severity, one of REDLATCH_SEVERITY_...; its kind, in a word of docs/operations.md such as
 * "eviction"; the server, node or sentinel that it is about, as a URL without credentials; what was found, what follows
 * and what to do, in English; each text of its length, with a NUL behind it and valid during the call only; and the
 * user_data of redlatch_check_server.
 */
typedef void (*redlatch_on_finding)(int32_t severity,
                                    const char *kind,
                                    size_t kind_len,
                                    const char *server,
                                    size_t server_len,
                                    const char *message,
                                    size_t message_len,
                                    void *user_data);

/**
 * Told of a lost lease: name and token of name_len and token_len bytes, each with a NUL behind it and valid during
 * the call only; the fence; the reason, one of REDLATCH_LOST_...; and the user_data of its registration.
 */
typedef void (*redlatch_on_lost)(const char *name,
                                 size_t name_len,
                                 const char *token,
                                 size_t token_len,
                                 uint64_t fence,
                                 int32_t reason,
                                 void *user_data);

/**
 * Frees the user_data of a callback.
 */
typedef void (*redlatch_destroy)(void *user_data);

/**
 * Told of one record of the log: its level, one of REDLATCH_LOG_...; where it comes from, such as
 * "redlatch::events", and the message with its fields, each of its length, with a NUL behind it and valid during
 * the call only; and the user_data of redlatch_set_log.
 */
typedef void (*redlatch_log_callback)(int32_t level,
                                      const char *target,
                                      size_t target_len,
                                      const char *message,
                                      size_t message_len,
                                      void *user_data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The name of a status, such as "REDLATCH_BUSY", for logs; "unknown status" for a number that is none.
 *
 * The text is static: do not free it.
 * Thread-safe. Since 0.1.
 */
const char *redlatch_status_name(int32_t status);

/**
 * A stable word for a reason: "none", "expired", "taken", "max_hold", "forked", "closed", "internal"; "unknown" for
 * a number that is none.
 *
 * The text is static: do not free it.
 * Thread-safe. Since 0.1.
 */
const char *redlatch_lost_reason_name(int32_t reason);

/**
 * The version of the library that runs, such as "0.1.0"; REDLATCH_VERSION is the version of the header that the
 * program was built with.
 *
 * The text is static: do not free it.
 * Thread-safe. Since 0.1.
 */
const char *redlatch_version(void);

/**
 * Fills options with the defaults. size is sizeof *options, by which the library knows the version of the header
 * that the program was built with.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_client_options_init(struct redlatch_client_options *options, size_t size);

/**
 * As redlatch_client_options_init, for the options of a lock or lease.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_options_init(struct redlatch_lock_options *options, size_t size);

/**
 * Makes a client of the server at url, url_len bytes: redis://, unix://, redis+sentinel:// or redis+cluster://, with
 * rediss in place of redis for TLS, or memory:// for a store inside this process. options may be NULL for the defaults.
 *
 * Opens no connection and starts no thread: both begin when first needed, and end with the client.
 *
 * REDLATCH_OK; REDLATCH_CONFIG for a URL or option that is refused, or a TLS file that cannot be used;
 * REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_client_open(const char *url,
                             size_t url_len,
                             const struct redlatch_client_options *options,
                             struct redlatch_client **client);

/**
 * Ends the client, whoever still has handles of it: waits return REDLATCH_CLOSED, held leases are lost as
 * REDLATCH_LOST_CLOSED, and their keys lapse by their ttl, which gives the holders that time to notice. Joins the
 * client's threads, except when called from an on_lost callback. Calling it again does nothing.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Blocks for 2 x io_timeout at most, and for a callback that runs. Since 0.1.
 */
int32_t redlatch_client_close(const struct redlatch_client *client);

/**
 * Frees the handle. Locks and leases made with it stay usable, and keep the client going: it ends when the last of
 * its handles is freed. What threads still hold then is released, and no callback is told. NULL is fine.
 *
 * Thread-safe. Blocks as redlatch_client_close where it frees the last handle. Since 0.1.
 */
void redlatch_client_free(struct redlatch_client *client);

/**
 * Asks the server who has the lock name. *json gets a text to be freed with redlatch_string_free, NULL unless
 * REDLATCH_OK is returned:
 *
 *     {"name": "order:17", "token": "...", "owner": "host:4711:label", "ttl_left_ms": 29312, "fence": 1765, "waiters": 2}
 *
 * owner is null for a client that is not redlatch, ttl_left_ms for a key without ttl, fence where none is kept.
 * waiters counts some that may be gone. Who knows the token can release the lock: keep it out of logs. Later versions
 * may add fields.
 *
 * REDLATCH_OK; REDLATCH_NOT_FOUND when nobody has it; REDLATCH_CONFIG; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT;
 * from the server REDLATCH_UNAVAILABLE, REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_KEY_TYPE,
 * REDLATCH_INCOMPATIBLE.
 * Thread-safe. Blocks for io_timeout at most. Since 0.1.
 */
int32_t redlatch_inspect(const struct redlatch_client *client,
                         const char *name,
                         size_t name_len,
                         char **json);

/**
 * Takes the lock name away from whoever has it, for operators. Its holder finds the lease lost as
 * REDLATCH_LOST_TAKEN at its next renewal, and may work on until then.
 *
 * REDLATCH_OK; REDLATCH_NOT_FOUND when nobody had it; otherwise as redlatch_inspect.
 * Thread-safe. Blocks for 2 x io_timeout at most. Since 0.1.
 */
int32_t redlatch_force_release(const struct redlatch_client *client, const char *name, size_t name_len);

/**
 * What the client has done since it was opened (in a forked child: since the fork). *json gets a text to be freed
 * with redlatch_string_free, NULL after a failure: one object of
 *
 * - counters, which only grow: acquired, busy, timed_out, unavailable, not_replicated, acquire_failed, cancelled,
 *   push_wakeups, poll_wakeups, pushes, inbox_lost, push_denied, renewed, renewal_retried, renewal_failed,
 *   renewal_late, released, release_failed, release_unconfirmed, background_released, background_gave_up, abandoned,
 *   publish_denied, callback_panicked, thread_panicked;
 * - what is so now: held_now, waiting_now, background_now, and longest_hold_now, which is null or
 *   {"name": ..., "held_ms": ...};
 * - lost: an object that counts the lost leases under the words of redlatch_lost_reason_name;
 * - wait_micros, hold_micros, hold_percent_of_ttl, renewal_delay_micros: objects of count, mean, p50, p99, p999, max;
 * - hottest: an array of {"name": ..., "waits": ...}, the names that were waited for most.
 *
 * docs/operations.md says what each means. Later versions may add fields.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Asks no server. Since 0.1.
 */
int32_t redlatch_client_stats_json(const struct redlatch_client *client, char **json);

/**
 * Looks whether the server is fit for locks, for the start of a program or by hand: its settings, state and version, the
 * access rules, replicas, sentinels or nodes of a cluster, clocks, and how long a request takes from here. Calls
 * callback for each finding, the worst first, on this thread and before this returns; NULL for none. *worst gets the
 * greatest severity, 0 where nothing was found; NULL for none. Below REDLATCH_SEVERITY_PROBLEM, and
 * without a finding of the kind "not_checked", locks can be had, and are kept as long as the server runs as it does now, if
 * the user has all access rules of docs/operations.md: only a part of them is tried.
 *
 * Writes nothing, and leaves no connection behind. What the access rules do not let it ask is a finding of the kind
 * "not_checked", no failure. Later versions may add kinds.
 *
 * REDLATCH_OK, whatever was found; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT; where no server could be asked
 * REDLATCH_UNAVAILABLE, REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_INCOMPATIBLE.
 * Thread-safe. Blocks for connect_timeout + 4 x io_timeout at most for one server, and in all for 5 x (connect_timeout +
 * io_timeout). Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_check_server(const struct redlatch_client *client,
                              redlatch_on_finding callback,
                              void *user_data,
                              int32_t *worst);

/**
 * Makes a handle of the lock name, name_len bytes: 1 to 1024 bytes of UTF-8, without ":redlatch:"; NULs are
 * fine. options may be NULL for the defaults. Asks no server.
 *
 * REDLATCH_OK; REDLATCH_CONFIG for a name or option that is refused; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_lock_new(const struct redlatch_client *client,
                          const char *name,
                          size_t name_len,
                          const struct redlatch_lock_options *options,
                          struct redlatch_lock **lock);

/**
 * Frees the handle. What is held stays held: it can be released through another handle of the same client and name,
 * by the same thread. NULL is fine.
 *
 * Thread-safe. Blocks as redlatch_client_close where it frees the client's last handle, which releases what is held.
 * Since 0.1.
 */
void redlatch_lock_free(struct redlatch_lock *lock);

/**
 * Acquires the lock for this thread, waiting for wait_ms at most, 0 to ask once, REDLATCH_WAIT_FOREVER for no limit.
 * The thread has it if and only if REDLATCH_OK is returned, and then owes one redlatch_lock_release. A thread that has
 * the lock already gets it once more at once, without asking the server.
 *
 * The wait covers everything, connecting included, and has nothing to do with the ttl. One below 10 ms may take
 * 10 ms. Without a limit an outage of unavailable_after ends it.
 *
 * REDLATCH_OK; REDLATCH_BUSY when wait_ms is 0, otherwise REDLATCH_TIMED_OUT: someone else has it; REDLATCH_LOST when
 * this thread had it and its lease was lost, so that it must release first; REDLATCH_CLOSED;
 * REDLATCH_INVALID_ARGUMENT; from the server REDLATCH_UNAVAILABLE, REDLATCH_NOT_REPLICATED, REDLATCH_AUTHENTICATION,
 * REDLATCH_PERMISSION, REDLATCH_KEY_TYPE, REDLATCH_INCOMPATIBLE.
 * Thread-safe. Blocks for wait_ms; with 0 for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lock_acquire(const struct redlatch_lock *lock, int64_t wait_ms);

/**
 * As redlatch_lock_acquire with a wait of 0: asks once.
 *
 * REDLATCH_OK; REDLATCH_BUSY; otherwise as redlatch_lock_acquire.
 * Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lock_try_acquire(const struct redlatch_lock *lock);

/**
 * As redlatch_lock_acquire, until another thread fires cancel.
 *
 * REDLATCH_CANCELLED; otherwise as redlatch_lock_acquire.
 * Thread-safe. Blocks for wait_ms. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_lock_acquire_cancellable(const struct redlatch_lock *lock,
                                          int64_t wait_ms,
                                          const struct redlatch_cancel *cancel);

/**
 * Gives up one hold of this thread. The last one stops renewal and releases the lock on the server. The hold is gone
 * whatever is returned, unless that is REDLATCH_NOT_HELD or REDLATCH_INVALID_ARGUMENT.
 *
 * REDLATCH_OK: free for others; REDLATCH_STILL_HELD: an inner release; REDLATCH_UNCONFIRMED: the server did not
 * confirm within io_timeout, and the background goes on; REDLATCH_LOST: the lease was lost, and the work may have
 * overlapped with another holder's; REDLATCH_NOT_HELD: this thread does not hold it; REDLATCH_INVALID_ARGUMENT; from
 * the server REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_KEY_TYPE, REDLATCH_INCOMPATIBLE, after which the
 * key lapses by its ttl.
 * Only the thread that acquired. Blocks for io_timeout at most. Since 0.1.
 */
int32_t redlatch_lock_release(const struct redlatch_lock *lock);

/**
 * Resets the lease to its full ttl now, by one round trip. Only needed with auto_renew 0.
 *
 * REDLATCH_OK; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT; from the server as redlatch_lock_acquire,
 * after which the lease still counts until its deadline.
 * Only the thread that acquired. Blocks for io_timeout at most. Since 0.1.
 */
int32_t redlatch_lock_renew(const struct redlatch_lock *lock);

/**
 * Whether this thread's lease is valid now, by the clock of this machine: to be called before every step that must
 * not happen twice. Asks no server.
 *
 * REDLATCH_OK: valid; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
 * Only the thread that acquired. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lock_check(const struct redlatch_lock *lock);

/**
 * *held is 1 where redlatch_lock_check returns REDLATCH_OK, otherwise 0: also on a thread that does not hold the lock.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_is_held(const struct redlatch_lock *lock, int32_t *held);

/**
 * *fence is the fencing token of this thread's lease, for the protected resource, which should refuse a lower one than
 * it has seen. It grows with every lease of the lock; nested holds share it. Also told of a lease that is lost, until
 * it is released.
 *
 * REDLATCH_OK; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
 * Only the thread that acquired. Does not block. Since 0.1.
 */
int32_t redlatch_lock_fence(const struct redlatch_lock *lock, uint64_t *fence);

/**
 * The token of this thread's lease, into buffer with a NUL at its end; REDLATCH_TOKEN_SIZE always takes it. needed,
 * unless NULL, gets the capacity that it takes, its NUL included. buffer may be NULL with capacity 0. Who knows the
 * token can release the lock: keep it out of logs.
 *
 * REDLATCH_OK; REDLATCH_TRUNCATED: too small, and only needed was written; REDLATCH_NOT_HELD;
 * REDLATCH_INVALID_ARGUMENT.
 * Only the thread that acquired. Does not block. Since 0.1.
 */
int32_t redlatch_lock_token(const struct redlatch_lock *lock, char *buffer, size_t capacity, size_t *needed);

/**
 * *count is how often this thread holds the lock; 0 when it does not.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_hold_count(const struct redlatch_lock *lock, uint32_t *count);

/**
 * *remaining_ms is the time until the deadline of this thread's lease, which renewal moves; 0 when it is over, and on
 * a thread that does not hold the lock.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_remaining_ms(const struct redlatch_lock *lock, int64_t *remaining_ms);

/**
 * *reason is why this thread's lease was lost, one of REDLATCH_LOST_...; REDLATCH_LOST_NONE while it is not, and on a
 * thread that does not hold the lock.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_lost_reason(const struct redlatch_lock *lock, int32_t *reason);

/**
 * Has callback called once for each lease that is lost, of those that are acquired through this handle from now on;
 * what is held already keeps the callback that it was acquired with. NULL ends it.
 *
 * See "Callbacks" at the top for where and when callback runs. With REDLATCH_OK the library owns user_data: destroy,
 * unless NULL, is called with it exactly once, after the last call of callback, when this callback was replaced or the
 * handle was freed, and every lease that was acquired with it has ended. That may be inside this call. Otherwise
 * nothing is called.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lock_on_lost(const struct redlatch_lock *lock,
                              redlatch_on_lost callback,
                              void *user_data,
                              redlatch_destroy destroy);

/**
 * Makes a handle that can hold the lock name, and does not hold it yet; arguments and statuses as redlatch_lock_new.
 *
 * For hand-over: any thread may use the handle, and with redlatch_lease_into_token and redlatch_adopt the lease moves
 * to another process. It has one lease at a time, and acquiring it again before a release is an error.
 *
 * REDLATCH_OK; REDLATCH_CONFIG; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_lease_new(const struct redlatch_client *client,
                           const char *name,
                           size_t name_len,
                           const struct redlatch_lock_options *options,
                           struct redlatch_lease **lease);

/**
 * Frees the handle. A lease that it still has is released in the background, and a warning is logged. NULL is fine.
 *
 * Thread-safe. Blocks as redlatch_client_close where it frees the client's last handle. Since 0.1.
 */
void redlatch_lease_free(struct redlatch_lease *lease);

/**
 * Acquires the lock for this handle; wait_ms as in redlatch_lock_acquire. The handle has it if and only if REDLATCH_OK
 * is returned, and then owes one redlatch_lease_release or redlatch_lease_into_token.
 *
 * REDLATCH_IN_USE: the handle has the lock already, or another thread acquires through it; otherwise as
 * redlatch_lock_acquire, without REDLATCH_LOST.
 * Thread-safe. Blocks for wait_ms; with 0 for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lease_acquire(const struct redlatch_lease *lease, int64_t wait_ms);

/**
 * As redlatch_lease_acquire with a wait of 0: asks once.
 *
 * REDLATCH_OK; REDLATCH_BUSY; otherwise as redlatch_lease_acquire.
 * Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lease_try_acquire(const struct redlatch_lease *lease);

/**
 * As redlatch_lease_acquire, until another thread fires cancel.
 *
 * REDLATCH_CANCELLED; otherwise as redlatch_lease_acquire.
 * Thread-safe. Blocks for wait_ms. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_lease_acquire_cancellable(const struct redlatch_lease *lease,
                                           int64_t wait_ms,
                                           const struct redlatch_cancel *cancel);

/**
 * Stops renewal and releases the lock on the server. The handle has no lease any more, whatever is returned, and can
 * acquire again.
 *
 * REDLATCH_NOT_HELD: the handle has no lease; otherwise as redlatch_lock_release, without REDLATCH_STILL_HELD.
 * Thread-safe. Blocks for io_timeout at most. Since 0.1.
 */
int32_t redlatch_lease_release(const struct redlatch_lease *lease);

/**
 * As redlatch_lock_renew, for the lease of this handle.
 *
 * REDLATCH_OK; REDLATCH_LOST; REDLATCH_NOT_HELD; otherwise as redlatch_lock_renew.
 * Thread-safe. Blocks for io_timeout at most. Since 0.1.
 */
int32_t redlatch_lease_renew(const struct redlatch_lease *lease);

/**
 * As redlatch_lock_check, for the lease of this handle.
 *
 * REDLATCH_OK: valid; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lease_check(const struct redlatch_lease *lease);

/**
 * *held is 1 where redlatch_lease_check returns REDLATCH_OK, otherwise 0.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_is_held(const struct redlatch_lease *lease, int32_t *held);

/**
 * As redlatch_lock_fence, for the lease of this handle.
 *
 * REDLATCH_OK; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_fence(const struct redlatch_lease *lease, uint64_t *fence);

/**
 * As redlatch_lock_token, for the lease of this handle, which goes on.
 *
 * REDLATCH_OK; REDLATCH_TRUNCATED; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_token(const struct redlatch_lease *lease, char *buffer, size_t capacity, size_t *needed);

/**
 * As redlatch_lock_remaining_ms, for the lease of this handle; 0 without one.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_remaining_ms(const struct redlatch_lease *lease, int64_t *remaining_ms);

/**
 * As redlatch_lock_lost_reason, for the lease of this handle; REDLATCH_LOST_NONE without one.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_lost_reason(const struct redlatch_lease *lease, int32_t *reason);

/**
 * As redlatch_lock_on_lost, for the leases that this handle gets from now on.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_lease_on_lost(const struct redlatch_lease *lease,
                               redlatch_on_lost callback,
                               void *user_data,
                               redlatch_destroy destroy);

/**
 * Hands the lease over: renews it, stops renewal, releases nothing, and writes its token into buffer, as
 * redlatch_lock_token does; use REDLATCH_TOKEN_SIZE. Whoever gets the token can adopt the lease until its ttl has
 * passed. The handle has no lease then, and can acquire again.
 *
 * REDLATCH_OK; REDLATCH_TRUNCATED: too small, only needed was written, and the handle still has the lease;
 * REDLATCH_NOT_HELD; REDLATCH_IN_USE: another thread uses the lease at this moment, and the handle still has it;
 * REDLATCH_INVALID_ARGUMENT. With any other status the lease was not handed over, and is released: REDLATCH_LOST, and
 * from the server as redlatch_lock_acquire.
 * Thread-safe. Blocks for io_timeout at most, and once more where a request went unanswered before. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_lease_into_token(const struct redlatch_lease *lease,
                                  char *buffer,
                                  size_t capacity,
                                  size_t *needed);

/**
 * Makes a lease handle as redlatch_lease_new, and takes over the lease that token, token_len bytes, proves: it becomes
 * a new lease with a new token and a new, larger fence. To set a callback before, use redlatch_lease_adopt.
 *
 * REDLATCH_OK; REDLATCH_NOT_FOUND: the lock is not held by that token any more; otherwise as redlatch_lease_adopt, and
 * as redlatch_lease_new. *lease is NULL unless REDLATCH_OK is returned.
 * Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE
int32_t redlatch_adopt(const struct redlatch_client *client,
                       const char *name,
                       size_t name_len,
                       const char *token,
                       size_t token_len,
                       const struct redlatch_lock_options *options,
                       struct redlatch_lease **lease);

/**
 * Takes over the lease that token, token_len bytes, proves, into a handle that has none; see redlatch_adopt.
 *
 * REDLATCH_OK; REDLATCH_NOT_FOUND: the lock is not held by that token any more; REDLATCH_CONFIG: the token is none;
 * REDLATCH_IN_USE; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT; from the server as redlatch_lock_acquire. After
 * REDLATCH_UNAVAILABLE the lock may have been taken over and then released again; after REDLATCH_NOT_REPLICATED it was.
 * Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_lease_adopt(const struct redlatch_lease *lease, const char *token, size_t token_len);

/**
 * Makes a cancel handle, which can be given to any number of waits.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Since 0.1.
 */
REDLATCH_MUST_USE int32_t redlatch_cancel_new(struct redlatch_cancel **cancel);

/**
 * Calls off every wait that was given this handle; each returns REDLATCH_CANCELLED and gives up its place in the
 * queue. It stays fired: a wait that begins with it later returns at once. A request that is on its way is not
 * interrupted, which takes io_timeout at most. A lock that is granted before the wait notices stays granted.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Does not block. Not for signal handlers. Since 0.1.
 */
int32_t redlatch_cancel_fire(const struct redlatch_cancel *cancel);

/**
 * Frees the handle. Waits that were given it go on, and nobody can call them off any more. NULL is fine.
 *
 * Thread-safe. Does not block. Since 0.1.
 */
void redlatch_cancel_free(struct redlatch_cancel *cancel);

/**
 * Frees a text from redlatch_inspect or redlatch_client_stats_json. NULL is fine.
 *
 * Thread-safe. Does not block. Since 0.1.
 */
void redlatch_string_free(char *text);

/**
 * The message of the last call on this thread that returned a negative status; an empty text before the first.
 *
 * A sentence in English, without tokens and passwords. Calls that succeed do not change it, so ask right after a
 * failure. buffer gets the text with a NUL at its end, cut at a character where capacity is too small. needed,
 * unless NULL, gets the capacity that the whole text takes, its NUL included. buffer may be NULL with capacity 0.
 *
 * REDLATCH_OK; REDLATCH_TRUNCATED; REDLATCH_INVALID_ARGUMENT for a NULL buffer with a capacity, which leaves the
 * message as it is.
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_last_error_message(char *buffer, size_t capacity, size_t *needed);

/**
 * Why the lease was lost, where the last call on this thread that returned a negative status returned
 * REDLATCH_LOST; otherwise REDLATCH_LOST_NONE.
 *
 * Thread-safe. Does not block. Since 0.1.
 */
int32_t redlatch_last_error_lost_reason(void);

/**
 * The fence of the lost lease, where the last call on this thread that returned a negative status returned
 * REDLATCH_LOST; otherwise 0, which no lease has. After a release it is told here only.
 *
 * Thread-safe. Does not block. Since 0.1.
 */
uint64_t redlatch_last_error_lost_fence(void);

/**
 * Has the log of the library passed to callback, from min_level (REDLATCH_LOG_...) up, for the whole process, and on
 * the thread that each record comes from, several at once perhaps. Replaces the callback before; NULL ends it. Before
 * the first, nothing is logged.
 *
 * Waits for a call of the callback before that is under way: once this returns, that one is not called any more and
 * its user_data may go. The callback must not block and must not call any function of redlatch. Texts contain
 * neither tokens nor passwords.
 *
 * REDLATCH_OK; REDLATCH_INVALID_ARGUMENT for an unknown level; REDLATCH_IN_USE where a Rust program has linked this
 * library and its `tracing` subscriber gets the log.
 * Thread-safe. Since 0.1.
 */
int32_t redlatch_set_log(redlatch_log_callback callback, void *user_data, int32_t min_level);

/**
 * Puts a message, message_len bytes, into the log with target "redlatch::program", as if the library had logged it: for
 * bindings that are made with this header and have nobody to tell. It goes where redlatch_set_log says.
 *
 * REDLATCH_OK, also where nobody gets the log; REDLATCH_INVALID_ARGUMENT.
 * Thread-safe. Since 0.1.
 */
int32_t redlatch_log(int32_t level, const char *message, size_t message_len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* REDLATCH_H */
