/*
 * redlatch for C++17 and later: one correct distributed lock on Redis and Valkey. Header-only, over redlatch.h.
 *
 * A lease is not a proof: a process that stalls longer than its ttl comes back believing in a lock that has another
 * holder. Call check() before every step that must not happen twice, and let the protected resource refuse a lower
 * fence() than it has seen.
 *
 *     #include <redlatch.hpp>
 *
 *     redlatch::client client("redis://127.0.0.1:6379/0");
 *     redlatch::mutex order(client, "order:17");
 *
 *     if (std::unique_lock guard(order, std::chrono::seconds(5)); guard) {
 *         ... write order.fence() to the protected row, where it has no higher one ...
 *         order.check();                              // throws lost_error where the lease is over
 *         ... write the result, where the row still has this fence ...
 *         if (release(guard) == redlatch::released::unconfirmed) { ... }
 *     } else {
 *         ... somebody else has it ...
 *     }
 *
 * CONVENTIONS
 *
 * Busy is no error. A try_ function returns false where somebody else has the lock. Whatever else goes wrong is an
 * exception: a server that does not answer is never reported as a busy lock. All exceptions of the library derive from
 * redlatch::error, a std::system_error; std::bad_alloc may come from everywhere else than noexcept functions.
 *
 * unlock() and release(). Standard guards end with unlock(), which cannot report: what went wrong is logged, see
 * set_log. A lock that protects something of value is given up with release(), which says how it ended. After an
 * exception of release() the lock is not held any more either, except after not_held_error. No destructor throws.
 *
 * Ownership. What is held belongs to client, thread and name, not to the mutex object: two mutex objects of one client
 * and name are the same lock, and destroying one releases nothing. Only the thread that acquired may release. A lease
 * is the exception: it owns its lock, and any thread may use it. A mutex or lease keeps its client going, whatever
 * happens to the client object.
 *
 * Threads. Any thread may use any object, several at once, except to destroy or to move it.
 *
 * Moved-from objects, of client, lease and cancel_token, may be destroyed and assigned to. Every other call throws
 * invalid_argument_error.
 *
 * Time. Waits of any std::chrono type are rounded up to whole milliseconds, and what is too long for these is as good
 * as for ever; a wait of nothing, or of less, asks once. Waits have nothing to do with the ttl. Options are whole
 * milliseconds.
 *
 * Texts are UTF-8. Names may contain NULs. Tokens are secrets: who knows one can release the lock.
 *
 * Callbacks run on threads of the library, or inside a call. An exception that leaves one is caught and logged.
 *
 * Fork, versions, and what else is common to all languages: see redlatch.h. Everything here is since 0.1.
 */

#ifndef REDLATCH_HPP
#define REDLATCH_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "redlatch.h"

// Errors can be caught, and codes compared, across shared libraries that hide their symbols otherwise.
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC visibility push(default)
#endif

namespace redlatch {

// ---------------------------------------------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------------------------------------------

/// What went wrong; the values are the statuses of redlatch.h. A later library may report others. Each has an exception
/// class of the same name, where it is described.
enum class errc : std::int32_t {
    cancelled = REDLATCH_CANCELLED,
    invalid_argument = REDLATCH_INVALID_ARGUMENT,
    config = REDLATCH_CONFIG,
    lost = REDLATCH_LOST,
    not_held = REDLATCH_NOT_HELD,
    unavailable = REDLATCH_UNAVAILABLE,
    authentication = REDLATCH_AUTHENTICATION,
    permission = REDLATCH_PERMISSION,
    key_type = REDLATCH_KEY_TYPE,
    incompatible = REDLATCH_INCOMPATIBLE,
    closed = REDLATCH_CLOSED,
    not_replicated = REDLATCH_NOT_REPLICATED,
    in_use = REDLATCH_IN_USE,
    internal = REDLATCH_INTERNAL,
};

/// Why a lease was lost. A later library may report others.
enum class lost_reason : std::int32_t {
    /// The deadline passed without a successful renewal: the server was away or the process stalled.
    expired = REDLATCH_LOST_EXPIRED,
    /// The server no longer has the holder's token under the key: deleted, evicted or taken over.
    taken = REDLATCH_LOST_TAKEN,
    /// max_hold was reached.
    max_hold = REDLATCH_LOST_MAX_HOLD,
    /// This process is a forked child; the lease belongs to its parent.
    forked = REDLATCH_LOST_FORKED,
    /// The client was closed.
    closed = REDLATCH_LOST_CLOSED,
    /// A defect inside redlatch ended it.
    internal = REDLATCH_LOST_INTERNAL,
};

/// A stable word for logs and metrics, such as "max_hold"; "unknown" for a reason that the library does not have.
[[nodiscard]] inline std::string_view to_string(lost_reason reason) noexcept {
    return redlatch_lost_reason_name(static_cast<std::int32_t>(reason));
}

namespace detail {

class error_category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "redlatch"; }

    [[nodiscard]] std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
            case errc::cancelled: return "the wait was called off";
            case errc::invalid_argument: return "wrong call";
            case errc::config: return "refused URL, name, token or option";
            case errc::lost: return "lease lost";
            case errc::not_held: return "not held";
            case errc::unavailable: return "no usable answer from the server";
            case errc::authentication: return "refused login";
            case errc::permission: return "refused by access rules";
            case errc::key_type: return "foreign data under a key";
            case errc::incompatible: return "server lacks what is needed";
            case errc::closed: return "client closed";
            case errc::not_replicated: return "too few replicas acknowledged";
            case errc::in_use: return "in use";
            case errc::internal: return "defect inside redlatch";
        }
        return redlatch_status_name(code);
    }

    [[nodiscard]] std::error_condition default_error_condition(int code) const noexcept override {
        switch (static_cast<errc>(code)) {
            case errc::cancelled: return std::errc::operation_canceled;
            case errc::invalid_argument: return std::errc::invalid_argument;
            case errc::config: return std::errc::invalid_argument;
            case errc::not_held: return std::errc::operation_not_permitted;
            case errc::unavailable: return std::errc::host_unreachable;
            case errc::authentication: return std::errc::permission_denied;
            case errc::permission: return std::errc::permission_denied;
            case errc::incompatible: return std::errc::not_supported;
            case errc::in_use: return std::errc::device_or_resource_busy;
            case errc::lost:
            case errc::key_type:
            case errc::closed:
            case errc::not_replicated:
            case errc::internal: break;
        }
        return {code, *this};
    }
};

}  // namespace detail

/// The category of the library's error codes, "redlatch".
///
/// Codes compare equal to these portable conditions: cancelled to std::errc::operation_canceled, invalid_argument and
/// config to invalid_argument, not_held to operation_not_permitted, unavailable to host_unreachable, authentication and
/// permission to permission_denied, incompatible to not_supported, in_use to device_or_resource_busy. The others have
/// none.
[[nodiscard]] inline const std::error_category& category() noexcept {
    // Never destroyed: other static objects may still fail when the program ends.
    alignas(detail::error_category) static unsigned char place[sizeof(detail::error_category)];
    static const std::error_category* const instance = ::new (static_cast<void*>(place)) detail::error_category;
    return *instance;
}

/// The code of an errc; found by std::error_code itself.
[[nodiscard]] inline std::error_code make_error_code(errc code) noexcept {
    return {static_cast<int>(code), category()};
}

}  // namespace redlatch

namespace std {
/// An errc is a std::error_code, and compares to one.
template <>
struct is_error_code_enum<redlatch::errc> : true_type {};
}  // namespace std

namespace redlatch {

/// Whatever goes wrong: code() is of category(), and what() is a sentence about it, without tokens and passwords.
class error : public std::system_error {
public:
    error(errc code, const std::string& sentence) : std::system_error(code, sentence) {}

    /// The code as an enumerator.
    [[nodiscard]] errc status() const noexcept { return static_cast<errc>(code().value()); }

    /// Whether the same call can succeed later without any change by the caller.
    [[nodiscard]] bool is_retryable() const noexcept {
        return status() == errc::unavailable || status() == errc::not_replicated || status() == errc::lost;
    }
};

/// A URL, name, token or option that is refused; the sentence names it and what would be accepted. Nothing was sent.
class config_error : public error {
public:
    explicit config_error(const std::string& sentence) : error(errc::config, sentence) {}
};

/// The lease ended while the caller still had it, and somebody else may have the lock: stop the work that it protected.
class lost_error : public error {
public:
    lost_error(const std::string& sentence, lost_reason reason, std::uint64_t fence)
        : error(errc::lost, sentence), reason_(reason), fence_(fence) {}

    /// Why it was lost.
    [[nodiscard]] lost_reason reason() const noexcept { return reason_; }

    /// The fence of the lost lease.
    [[nodiscard]] std::uint64_t fence() const noexcept { return fence_; }

private:
    lost_reason reason_;
    std::uint64_t fence_;
};

/// The calling thread, or this lease, does not hold the lock.
class not_held_error : public error {
public:
    explicit not_held_error(const std::string& sentence) : error(errc::not_held, sentence) {}
};

/// No usable answer from the server within the caller's time. Whether the lock is free is unknown. Can be retried.
class unavailable_error : public error {
public:
    explicit unavailable_error(const std::string& sentence) : error(errc::unavailable, sentence) {}
};

/// The server refuses the user name or password of the URL, or wants one.
class authentication_error : public error {
public:
    explicit authentication_error(const std::string& sentence) : error(errc::authentication, sentence) {}
};

/// The server's access rules forbid a command or key that the lock needs.
class permission_error : public error {
public:
    explicit permission_error(const std::string& sentence) : error(errc::permission, sentence) {}
};

/// A key that the lock needs holds foreign data. Nothing was written.
class key_type_error : public error {
public:
    explicit key_type_error(const std::string& sentence) : error(errc::key_type, sentence) {}
};

/// The server answers, but cannot do what the lock needs. Retrying does not help.
class incompatible_error : public error {
public:
    explicit incompatible_error(const std::string& sentence) : error(errc::incompatible, sentence) {}
};

/// The wait was called off by cancel_token::fire(). The lock is not held.
class cancelled_error : public error {
public:
    explicit cancelled_error(const std::string& sentence) : error(errc::cancelled, sentence) {}
};

/// client::close() was called.
class closed_error : public error {
public:
    explicit closed_error(const std::string& sentence) : error(errc::closed, sentence) {}
};

/// Too few replicas acknowledged the grant (option min_replicas), so it was given up. Can be retried.
class not_replicated_error : public error {
public:
    explicit not_replicated_error(const std::string& sentence) : error(errc::not_replicated, sentence) {}
};

/// The lease has the lock already, another thread uses it at this moment, or the log goes elsewhere.
class in_use_error : public error {
public:
    explicit in_use_error(const std::string& sentence) : error(errc::in_use, sentence) {}
};

/// The call itself is wrong: text that is not UTF-8, or an object that was moved from. Nothing was done.
class invalid_argument_error : public error {
public:
    explicit invalid_argument_error(const std::string& sentence) : error(errc::invalid_argument, sentence) {}
};

/// A defect inside redlatch, which ended this call and nothing else. Please report it.
class internal_error : public error {
public:
    explicit internal_error(const std::string& sentence) : error(errc::internal, sentence) {}
};

namespace detail {

/// The sentence about the last failure on this thread.
[[nodiscard]] inline std::string last_error_message() {
    std::size_t needed = 0;
    // Nothing but asking for the length, which is reported with every status.
    static_cast<void>(redlatch_last_error_message(nullptr, 0, &needed));
    std::string sentence(needed, '\0');
    static_cast<void>(redlatch_last_error_message(sentence.data(), sentence.size(), nullptr));
    if (!sentence.empty()) sentence.pop_back();
    return sentence;
}

/// Throws what a status of a failure stands for.
[[noreturn]] inline void fail(std::int32_t status) {
    if (status == REDLATCH_CANCELLED) throw cancelled_error("the wait for a lock was called off");
    const std::string sentence = last_error_message();
    switch (status) {
        case REDLATCH_INVALID_ARGUMENT: throw invalid_argument_error(sentence);
        case REDLATCH_CONFIG: throw config_error(sentence);
        case REDLATCH_LOST:
            throw lost_error(sentence, static_cast<lost_reason>(redlatch_last_error_lost_reason()),
                             redlatch_last_error_lost_fence());
        case REDLATCH_NOT_HELD: throw not_held_error(sentence);
        case REDLATCH_UNAVAILABLE: throw unavailable_error(sentence);
        case REDLATCH_AUTHENTICATION: throw authentication_error(sentence);
        case REDLATCH_PERMISSION: throw permission_error(sentence);
        case REDLATCH_KEY_TYPE: throw key_type_error(sentence);
        case REDLATCH_INCOMPATIBLE: throw incompatible_error(sentence);
        case REDLATCH_CLOSED: throw closed_error(sentence);
        case REDLATCH_NOT_REPLICATED: throw not_replicated_error(sentence);
        case REDLATCH_IN_USE: throw in_use_error(sentence);
        case REDLATCH_INTERNAL: throw internal_error(sentence);
        default: break;
    }
    // Of a later library.
    if (status < 0) throw error(static_cast<errc>(status), sentence);
    throw internal_error(std::string("unexpected status ") + redlatch_status_name(status));
}

/// Throws unless the status is REDLATCH_OK.
inline void expect_ok(std::int32_t status) {
    if (status != REDLATCH_OK) fail(status);
}

/// Whether the lock was granted; throws for everything but "somebody else has it".
[[nodiscard]] inline bool granted(std::int32_t status) {
    if (status == REDLATCH_OK) return true;
    if (status == REDLATCH_BUSY || status == REDLATCH_TIMED_OUT) return false;
    fail(status);
}

/// Logs `what: sentence`, where nobody can be told. Allocates nothing of its own.
inline void log(std::int32_t level, const char* what, const char* sentence) noexcept {
    char line[640];
    const int length = std::snprintf(line, sizeof line, "%s: %s", what, sentence);
    if (length < 0) return;
    const std::size_t written = (std::min)(static_cast<std::size_t>(length), sizeof line - 1);
    if (redlatch_log(level, line, written) == REDLATCH_OK) return;
    // The sentence is the program's, and not UTF-8, or cut inside a character.
    static_cast<void>(redlatch_log(level, what, std::strlen(what)));
}

/// Logs what the last failure on this thread was.
inline void log_last_error(const char* what, std::int32_t status) noexcept {
    char sentence[512] = "";
    static_cast<void>(redlatch_last_error_message(sentence, sizeof sentence, nullptr));
    const bool grave = status == REDLATCH_LOST || status == REDLATCH_NOT_HELD || status == REDLATCH_INTERNAL;
    log(grave ? REDLATCH_LOG_ERROR : REDLATCH_LOG_WARN, what, sentence);
}

/// A wait in the milliseconds of redlatch.h: rounded up, from 0 to the longest that fits.
template <class Rep, class Period>
[[nodiscard]] constexpr std::int64_t wait_ms(const std::chrono::duration<Rep, Period>& wait) {
    using exact = std::chrono::duration<long double, std::milli>;
    constexpr std::int64_t longest = (std::numeric_limits<std::int64_t>::max)();
    const long double left = std::chrono::duration_cast<exact>(wait).count();
    // Also what is not a number.
    if (!(left > 0.0L)) return 0;
    if (left >= static_cast<long double>(longest)) return longest;
    const auto whole = static_cast<std::int64_t>(left);
    return static_cast<long double>(whole) < left ? whole + 1 : whole;
}

/// The time from one instant of a clock to another, without overflow.
template <class Clock, class Duration>
[[nodiscard]] std::chrono::duration<long double, std::milli> time_until(
    const std::chrono::time_point<Clock, Duration>& until) {
    using exact = std::chrono::duration<long double, std::milli>;
    const auto now = Clock::now().time_since_epoch();
    return std::chrono::duration_cast<exact>(until.time_since_epoch()) - std::chrono::duration_cast<exact>(now);
}

/// Waits until an instant, by calls that wait for a time. A clock that is set back has it wait once more.
template <class Clock, class Duration, class Acquire>
[[nodiscard]] bool acquire_until(const std::chrono::time_point<Clock, Duration>& until, const Acquire& acquire) {
    bool has = acquire(wait_ms(time_until(until)));
    while (!has) {
        const std::int64_t left = wait_ms(time_until(until));
        if (left == 0) break;
        has = acquire(left);
    }
    return has;
}

/// A text that the library made.
[[nodiscard]] inline std::string take(char* text) {
    const std::unique_ptr<char, decltype(&redlatch_string_free)> owned(text, &redlatch_string_free);
    return std::string(owned.get());
}

/// A token, from the function that writes it.
template <class Write>
[[nodiscard]] std::string read_token(const Write& write) {
    // Allocated before: a token that was written must reach the caller.
    std::string token(REDLATCH_TOKEN_SIZE, '\0');
    std::size_t needed = 0;
    expect_ok(write(token.data(), token.size(), &needed));
    token.resize(needed - 1);
    return token;
}

/// Owner of a handle of redlatch.h.
template <class Handle, void (*Free)(Handle*)>
struct deleter {
    void operator()(Handle* handle) const noexcept { Free(handle); }
};

template <class Handle, void (*Free)(Handle*)>
using owner = std::unique_ptr<Handle, deleter<Handle, Free>>;

}  // namespace detail

// ---------------------------------------------------------------------------------------------------------------
// Log
// ---------------------------------------------------------------------------------------------------------------

/// How much a record of the log matters.
enum class log_level : std::int32_t {
    /// For those who look into redlatch itself.
    debug = REDLATCH_LOG_DEBUG,
    /// Worth knowing.
    info = REDLATCH_LOG_INFO,
    /// Something is not as it should be, and redlatch goes on.
    warn = REDLATCH_LOG_WARN,
    /// A lease was lost, or a defect was found.
    error = REDLATCH_LOG_ERROR,
};

/// Told of one record: where it comes from, such as "redlatch::events", and the message with its fields. Both texts are
/// valid during the call only, and contain neither tokens nor passwords.
using log_function = std::function<void(log_level level, std::string_view target, std::string_view message)>;

}  // namespace redlatch

// What the library calls has the linkage of C.
extern "C" {

inline void redlatch_detail_log(std::int32_t level, const char* target, std::size_t target_len, const char* message,
                                std::size_t message_len, void* user_data) noexcept {
    try {
        (*static_cast<redlatch::log_function*>(user_data))(
            static_cast<redlatch::log_level>(level), {target, target_len}, {message, message_len});
    } catch (...) {
        // A log that cannot log has nobody to tell.
    }
}

}  // extern "C"

namespace redlatch {

/// Has the log of the library passed to `function`, from `least` up, for the whole process; an empty function ends it.
/// Before the first, nothing is logged, not even what unlock() cannot report.
///
/// It is called on the thread that a record comes from, by several at once perhaps. It must not block, nor call
/// anything of redlatch; its exceptions are dropped. Waits for calls of the function before that are under way: once
/// this returns, that one is not called any more and has been destroyed. The last one is never destroyed, since records
/// may come until the process ends.
///
/// Throws in_use_error where a Rust program has linked this library and takes the log itself. Thread-safe.
inline void set_log(log_function function, log_level least = log_level::warn) {
    static std::mutex one_at_a_time;
    static log_function* current = nullptr;
    const std::lock_guard<std::mutex> guard(one_at_a_time);
    std::unique_ptr<log_function> next;
    if (function) next = std::make_unique<log_function>(std::move(function));
    detail::expect_ok(
        redlatch_set_log(next ? &redlatch_detail_log : nullptr, next.get(), static_cast<std::int32_t>(least)));
    const std::unique_ptr<log_function> before(std::exchange(current, next.release()));
}

/// The version of the library that runs, such as "0.1.0"; REDLATCH_VERSION is that of the headers.
[[nodiscard]] inline std::string_view version() noexcept { return redlatch_version(); }

// ---------------------------------------------------------------------------------------------------------------
// Options
// ---------------------------------------------------------------------------------------------------------------

/// Options of a client. What is not set is the library's default.
struct client_options {
    /// What stands before every name to make its key, at most 256 bytes; whoever shares a lock uses the same. "lock:".
    std::optional<std::string> key_prefix = std::nullopt;
    /// A word that shows in tokens and client::inspect, to tell workers apart: 1 to 64 ASCII letters, digits, '.', '_',
    /// '-', '/'. None.
    std::optional<std::string> label = std::nullopt;
    /// Path of a PEM file with the authorities that may vouch for a rediss:// server; only these are trusted then. The
    /// platform's store.
    std::optional<std::string> tls_ca = std::nullopt;
    /// Path of a PEM file with the certificate that this client shows to a rediss:// server, together with tls_key.
    /// None.
    std::optional<std::string> tls_cert = std::nullopt;
    /// Path of a PEM file with the private key of tls_cert, not encrypted. None.
    std::optional<std::string> tls_key = std::nullopt;
    /// Limit of opening a connection, name lookup and login included, 10 ms to 60 s. 1 s.
    std::optional<std::chrono::milliseconds> connect_timeout = std::nullopt;
    /// Limit of one request and its reply, 10 ms to 60 s. 1 s.
    std::optional<std::chrono::milliseconds> io_timeout = std::nullopt;
    /// Limit of the wait for a free connection, 10 ms to 60 s. What is left of the call's time, which 0 stands for too.
    std::optional<std::chrono::milliseconds> pool_timeout = std::nullopt;
    /// Continuous outage after which lock() gives up, 100 ms to 24 h. 10 s.
    std::optional<std::chrono::milliseconds> unavailable_after = std::nullopt;
    /// How long the server keeps a lock's last fence after a grant, 1 s to 30 days. 1 h.
    std::optional<std::chrono::milliseconds> fence_retention = std::nullopt;
    /// How long a released lock stays reserved for the first waiter, 500 ms to 10 s. 1 s.
    std::optional<std::chrono::milliseconds> turn = std::nullopt;
    /// How long the server waits for the acknowledgement of a grant by min_replicas, 10 ms to 60 s. 100 ms.
    std::optional<std::chrono::milliseconds> replica_timeout = std::nullopt;
    /// How many replicas must acknowledge a grant before it is one, 0 to 16. 0: none is asked.
    std::optional<std::uint32_t> min_replicas = std::nullopt;
    /// Connections that callers share, 1 to 1024. 8.
    std::optional<std::uint32_t> pool_size = std::nullopt;
    /// Threads that renew leases, each with a connection of its own, 1 to 64. 2.
    std::optional<std::uint32_t> renewal_threads = std::nullopt;
};

/// What an on_lost callback is told. The texts are valid during the call only.
struct lost_info {
    /// The lock's name.
    std::string_view name;
    /// The token of the lost lease. A secret.
    std::string_view token;
    /// The fence of the lost lease.
    std::uint64_t fence;
    /// Why it was lost.
    lost_reason reason;
};

/// Called once for each lease that is lost, within milliseconds of its deadline.
///
/// On a thread of the client's, where those of one client run one after another: it should be short. It may call
/// everything of redlatch. An exception that leaves it is caught and logged. The copy that a mutex or lease keeps is
/// destroyed once, after the last call, when its object is destroyed and every lease that it was acquired with has
/// ended; on any thread.
using on_lost_function = std::function<void(const lost_info& info)>;

/// Options of a mutex or lease. What is not set is the library's default.
///
/// While a thread holds a lock, the options of the object that acquired it first apply until its last release.
struct lock_options {
    /// How long the lease lives without renewal, 100 ms to 24 h: after a crash of the holder others wait at most this
    /// long. 30 s.
    std::optional<std::chrono::milliseconds> ttl = std::nullopt;
    /// The longest time a lease is kept, whatever its holder does: then renewal stops and the lease is lost. From the
    /// ttl to 365 days. No limit, which 0 stands for too.
    std::optional<std::chrono::milliseconds> max_hold = std::nullopt;
    /// Whether the lease is renewed in the background, every third of the ttl. Otherwise it ends after one ttl unless
    /// renew() is called. True.
    std::optional<bool> auto_renew = std::nullopt;
    /// Told of a lost lease. Nobody.
    on_lost_function on_lost = nullptr;
};

namespace detail {

inline void set_text(const std::optional<std::string>& text, const char*& place, std::size_t& length) noexcept {
    if (!text) return;
    place = text->data();
    length = text->size();
}

template <class Number>
void set_number(const std::optional<Number>& number, Number& place) noexcept {
    if (number) place = *number;
}

inline void set_time(const std::optional<std::chrono::milliseconds>& time, std::int64_t& place) noexcept {
    if (time) place = time->count();
}

/// In the form of redlatch.h; refers to the texts of `options`.
[[nodiscard]] inline redlatch_client_options lowered(const client_options& options) {
    redlatch_client_options c;
    expect_ok(redlatch_client_options_init(&c, sizeof c));
    set_text(options.key_prefix, c.key_prefix, c.key_prefix_len);
    set_text(options.label, c.label, c.label_len);
    set_text(options.tls_ca, c.tls_ca, c.tls_ca_len);
    set_text(options.tls_cert, c.tls_cert, c.tls_cert_len);
    set_text(options.tls_key, c.tls_key, c.tls_key_len);
    set_time(options.connect_timeout, c.connect_timeout_ms);
    set_time(options.io_timeout, c.io_timeout_ms);
    set_time(options.pool_timeout, c.pool_timeout_ms);
    set_time(options.unavailable_after, c.unavailable_after_ms);
    set_time(options.fence_retention, c.fence_retention_ms);
    set_time(options.turn, c.turn_ms);
    set_time(options.replica_timeout, c.replica_timeout_ms);
    set_number(options.min_replicas, c.min_replicas);
    set_number(options.pool_size, c.pool_size);
    set_number(options.renewal_threads, c.renewal_threads);
    return c;
}

/// In the form of redlatch.h, which has no callback.
[[nodiscard]] inline redlatch_lock_options lowered(const lock_options& options) {
    redlatch_lock_options c;
    expect_ok(redlatch_lock_options_init(&c, sizeof c));
    set_time(options.ttl, c.ttl_ms);
    set_time(options.max_hold, c.max_hold_ms);
    if (options.auto_renew) c.auto_renew = *options.auto_renew ? 1 : 0;
    return c;
}

}  // namespace detail

}  // namespace redlatch

extern "C" {

inline void redlatch_detail_on_lost(const char* name, std::size_t name_len, const char* token, std::size_t token_len,
                                    std::uint64_t fence, std::int32_t reason, void* user_data) noexcept {
    try {
        const redlatch::lost_info info{
            {name, name_len}, {token, token_len}, fence, static_cast<redlatch::lost_reason>(reason)};
        (*static_cast<const redlatch::on_lost_function*>(user_data))(info);
    } catch (const std::exception& exception) {
        redlatch::detail::log(REDLATCH_LOG_ERROR, "an on_lost callback threw", exception.what());
    } catch (...) {
        redlatch::detail::log(REDLATCH_LOG_ERROR, "an on_lost callback threw", "something that is no std::exception");
    }
}

inline void redlatch_detail_destroy_on_lost(void* user_data) noexcept {
    delete static_cast<redlatch::on_lost_function*>(user_data);
}

}  // extern "C"

namespace redlatch {

namespace detail {

/// Gives a callback to the library, which owns the copy once it says REDLATCH_OK.
template <class Register>
void register_on_lost(const on_lost_function& function, const Register& call) {
    if (!function) return;
    auto owned = std::make_unique<on_lost_function>(function);
    expect_ok(call(&redlatch_detail_on_lost, owned.get(), &redlatch_detail_destroy_on_lost));
    static_cast<void>(owned.release());
}

}  // namespace detail

// ---------------------------------------------------------------------------------------------------------------
// Calling off waits
// ---------------------------------------------------------------------------------------------------------------

/// Calls off waits from another thread. Copies are the same token. It stays fired.
class cancel_token {
public:
    /// A token that has not been fired.
    cancel_token() : handle_(make(), &redlatch_cancel_free) {}

    /// Calls off every wait that was given this token or a copy: each throws cancelled_error and gives up its place in
    /// the queue, and one that begins later throws at once. A request that is on its way is not interrupted, which
    /// takes io_timeout at most; a lock that is granted before the wait notices stays granted.
    ///
    /// Does not block. Not for signal handlers.
    void fire() const { detail::expect_ok(redlatch_cancel_fire(handle_.get())); }

    /// The handle of redlatch.h, which stays this object's.
    [[nodiscard]] redlatch_cancel* native_handle() const noexcept { return handle_.get(); }

private:
    [[nodiscard]] static redlatch_cancel* make() {
        redlatch_cancel* handle = nullptr;
        detail::expect_ok(redlatch_cancel_new(&handle));
        return handle;
    }

    std::shared_ptr<redlatch_cancel> handle_;
};

// ---------------------------------------------------------------------------------------------------------------
// Check of a server
// ---------------------------------------------------------------------------------------------------------------

/// How bad a finding is; the worst is the greatest.
enum class severity : std::int32_t {
    /// Good to know; also what could not be checked.
    info = REDLATCH_SEVERITY_INFO,
    /// Locks work now. One failure that has to be expected, a restart, a failover or a clock that is set, can give a lock
    /// to two holders or leave everyone without.
    warning = REDLATCH_SEVERITY_WARNING,
    /// Locks are unsafe as the server is run, or cannot be had at all.
    problem = REDLATCH_SEVERITY_PROBLEM,
};

/// A stable word for logs and metrics, such as "problem".
[[nodiscard]] inline std::string_view to_string(severity how) noexcept {
    switch (how) {
        case severity::info: return "info";
        case severity::warning: return "warning";
        default: return "problem";
    }
}

/// Something that client::check_server has found.
struct finding {
    /// How bad it is.
    redlatch::severity severity;
    /// What it is about, in a word of docs/operations.md such as "eviction"; later libraries may add some.
    std::string kind;
    /// The server, node or sentinel that it is about, as a URL without credentials.
    std::string server;
    /// What was found, what follows, and what to do, in English. Its wording may change in any release.
    std::string message;
};

namespace detail {

// What is found, and what went wrong in noting it: no exception may pass through the library.
struct findings {
    std::vector<finding> all;
    std::exception_ptr failure;
};

}  // namespace detail

}  // namespace redlatch

extern "C" {

inline void redlatch_detail_finding(std::int32_t severity, const char* kind, std::size_t kind_len, const char* server,
                                    std::size_t server_len, const char* message, std::size_t message_len,
                                    void* user_data) noexcept {
    auto& found = *static_cast<redlatch::detail::findings*>(user_data);
    if (found.failure) return;
    try {
        found.all.push_back({static_cast<redlatch::severity>(severity), std::string(kind, kind_len),
                             std::string(server, server_len), std::string(message, message_len)});
    } catch (...) {
        found.failure = std::current_exception();
    }
}

}  // extern "C"

namespace redlatch {

// ---------------------------------------------------------------------------------------------------------------
// Client
// ---------------------------------------------------------------------------------------------------------------

class lease;

/// A way to one Redis or Valkey server, shared by all threads. One for each server and process is enough.
///
/// It ends with close(), after which what is held is lost and its keys lapse by their ttl; or when it and every mutex and
/// lease that was made with it are destroyed, which releases what is held.
class client {
public:
    /// A client of the server at `url`: redis://, unix://, redis+sentinel:// or redis+cluster://, with rediss in place of
    /// redis for TLS, or memory:// for a store inside this process.
    ///
    /// Opens no connection and starts no thread: both begin when first needed. Throws config_error,
    /// invalid_argument_error.
    explicit client(std::string_view url, const client_options& options = {}) {
        const redlatch_client_options c = detail::lowered(options);
        redlatch_client* handle = nullptr;
        detail::expect_ok(redlatch_client_open(text(url), url.size(), &c, &handle));
        handle_.reset(handle);
    }

    /// Ends the client, whoever still has locks of it: waits throw closed_error, held leases are lost, and their keys
    /// lapse by their ttl, which gives the holders that time to notice. Calling it again does nothing.
    ///
    /// Joins the client's threads, except when called from an on_lost callback. Blocks for 2 x io_timeout at most, and
    /// for a callback that runs.
    void close() const { detail::expect_ok(redlatch_client_close(handle_.get())); }

    /// What the client has done since it was opened, as a JSON object; redlatch_client_stats_json has its fields. Asks
    /// no server.
    [[nodiscard]] std::string stats_json() const {
        char* json = nullptr;
        detail::expect_ok(redlatch_client_stats_json(handle_.get(), &json));
        return detail::take(json);
    }

    /// Looks whether the server is fit for locks, for the start of a program or by hand; the worst finding first. Where
    /// none is a severity::problem or "not_checked" locks can be had, and are kept as long as the server runs as it does
    /// now, if the user has all access rules of docs/operations.md: only a part of them is tried.
    ///
    /// Writes nothing, and leaves no connection behind. What the access rules do not let it ask is a finding of the kind
    /// "not_checked", no exception. Blocks for connect_timeout + 4 x io_timeout at most for one server, and in all for 5
    /// x (connect_timeout + io_timeout). Throws closed_error, and where no server could be asked unavailable_error,
    /// authentication_error, permission_error, incompatible_error.
    [[nodiscard]] std::vector<finding> check_server() const {
        detail::findings found;
        detail::expect_ok(redlatch_check_server(handle_.get(), &redlatch_detail_finding, &found, nullptr));
        if (found.failure) std::rethrow_exception(found.failure);
        return std::move(found.all);
    }

    /// Asks the server who has the lock `name`: a JSON object, whose fields redlatch_inspect has, and which contains
    /// the token; nothing when nobody has it.
    ///
    /// Blocks for io_timeout at most. Throws config_error, closed_error, and from the server unavailable_error,
    /// authentication_error, permission_error, key_type_error, incompatible_error.
    [[nodiscard]] std::optional<std::string> inspect(std::string_view name) const {
        char* json = nullptr;
        const std::int32_t status = redlatch_inspect(handle_.get(), text(name), name.size(), &json);
        if (status == REDLATCH_NOT_FOUND) return std::nullopt;
        detail::expect_ok(status);
        return detail::take(json);
    }

    /// Takes the lock `name` away from whoever has it, for operators; false when nobody had it. Its holder finds the
    /// lease lost, as lost_reason::taken, at its next renewal, and may work on until then.
    ///
    /// Blocks for 2 x io_timeout at most. Throws as inspect().
    bool force_release(std::string_view name) const {
        const std::int32_t status = redlatch_force_release(handle_.get(), text(name), name.size());
        if (status == REDLATCH_NOT_FOUND) return false;
        detail::expect_ok(status);
        return true;
    }

    /// Takes over the lease of the lock `name` that `token` proves, see lease::into_token(): it becomes a new lease
    /// with a new token and a new, larger fence. Nothing when the lock is not held by that token any more.
    ///
    /// Blocks for connect_timeout + io_timeout at most. Throws config_error, closed_error, and from the server as
    /// mutex::lock(). After unavailable_error the lock may have been taken over and then released again; after
    /// not_replicated_error it was.
    [[nodiscard]] std::optional<lease> adopt(std::string_view name, std::string_view token,
                                             const lock_options& options = {}) const;

    /// The handle of redlatch.h, which stays this object's; NULL after a move.
    [[nodiscard]] redlatch_client* native_handle() const noexcept { return handle_.get(); }

private:
    friend class mutex;
    friend class lease;

    /// An empty view may have no address, which would be taken for a missing text.
    [[nodiscard]] static const char* text(std::string_view view) noexcept {
        return view.data() == nullptr ? "" : view.data();
    }

    detail::owner<redlatch_client, &redlatch_client_free> handle_;
};

// ---------------------------------------------------------------------------------------------------------------
// Mutex
// ---------------------------------------------------------------------------------------------------------------

/// How a release ended that did not fail.
enum class [[nodiscard]] released {
    /// Free for others.
    released,
    /// An inner release: the thread still holds the lock.
    still_held,
    /// Released as far as this process is concerned, but the server did not confirm it in time. The library goes on
    /// releasing in the background; at worst others wait until the ttl has passed.
    unconfirmed,
};

namespace detail {

inline released release_outcome(std::int32_t status) {
    switch (status) {
        case REDLATCH_OK: return released::released;
        case REDLATCH_STILL_HELD: return released::still_held;
        case REDLATCH_UNCONFIRMED: return released::unconfirmed;
        default: fail(status);
    }
}

inline std::optional<lost_reason> reason_or_none(std::int32_t reason) noexcept {
    if (reason == REDLATCH_LOST_NONE) return std::nullopt;
    return static_cast<lost_reason>(reason);
}

}  // namespace detail

/// A lock by name that belongs to the thread that acquires it. It is re-entrant, as std::recursive_timed_mutex, and
/// meets TimedLockable: std::lock_guard, std::unique_lock and std::scoped_lock of several work.
///
/// A thread that has the lock gets it once more at once, without asking the server, and owes one release more. A thread
/// that ends while it holds the lock has it released in the background, and a warning is logged.
class mutex {
public:
    /// A lock named `name`, 1 to 1024 bytes; it is not held yet. Asks no server. Throws config_error,
    /// invalid_argument_error.
    explicit mutex(const client& owner, std::string_view name, const lock_options& options = {}) : name_(name) {
        const redlatch_lock_options c = detail::lowered(options);
        redlatch_lock* handle = nullptr;
        detail::expect_ok(redlatch_lock_new(owner.native_handle(), name_.data(), name_.size(), &c, &handle));
        handle_.reset(handle);
        detail::register_on_lost(options.on_lost, [handle](auto callback, void* data, auto destroy) {
            return redlatch_lock_on_lost(handle, callback, data, destroy);
        });
    }

    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;

    /// What is held stays held: it can be released through another mutex of the same client and name, by the same
    /// thread.
    ~mutex() = default;

    /// Acquires the lock for this thread, and waits as long as somebody else has it.
    ///
    /// Throws lost_error where this thread had it and its lease was lost, so that it must release first; closed_error;
    /// from the server unavailable_error after an outage of unavailable_after, not_replicated_error,
    /// authentication_error, permission_error, key_type_error, incompatible_error. The lock is held if and only if
    /// nothing is thrown.
    void lock() { detail::expect_ok(redlatch_lock_acquire(handle_.get(), REDLATCH_WAIT_FOREVER)); }

    /// As lock(), until `cancel` is fired: cancelled_error.
    void lock(const cancel_token& cancel) {
        detail::expect_ok(
            redlatch_lock_acquire_cancellable(handle_.get(), REDLATCH_WAIT_FOREVER, cancel.native_handle()));
    }

    /// Asks once; false where somebody else has the lock. Blocks for connect_timeout + io_timeout at most. Throws as
    /// lock().
    [[nodiscard]] bool try_lock() { return detail::granted(redlatch_lock_try_acquire(handle_.get())); }

    /// As try_lock(); cancelled_error where `cancel` is fired.
    [[nodiscard]] bool try_lock(const cancel_token& cancel) { return acquire(0, &cancel); }

    /// Waits for `wait` at most, connecting included; false where somebody else had the lock for the whole time. A wait
    /// below 10 ms may take 10 ms. Throws as lock(), unavailable_error when the time is over.
    template <class Rep, class Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
        return acquire(detail::wait_ms(wait), nullptr);
    }

    /// As try_lock_for(), until `cancel` is fired: cancelled_error.
    template <class Rep, class Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& wait, const cancel_token& cancel) {
        return acquire(detail::wait_ms(wait), &cancel);
    }

    /// Waits until `until` at the latest; false where somebody else had the lock up to then. An instant in the past
    /// asks once. Where the clock is set back meanwhile, it waits longer; where it is set forward, it is noticed late.
    template <class Clock, class Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& until) {
        return detail::acquire_until(until, [this](std::int64_t wait) { return acquire(wait, nullptr); });
    }

    /// As try_lock_until(), until `cancel` is fired: cancelled_error.
    template <class Clock, class Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& until,
                                      const cancel_token& cancel) {
        return detail::acquire_until(until, [this, &cancel](std::int64_t wait) { return acquire(wait, &cancel); });
    }

    /// Gives up one hold of this thread. The last one stops renewal and releases the lock on the server. The hold is
    /// gone whatever happens, unless not_held_error is thrown.
    ///
    /// Blocks for io_timeout at most. Throws lost_error: the work may have overlapped with another holder's;
    /// not_held_error: this thread does not hold it; and from the server, after which the key lapses by its ttl,
    /// authentication_error, permission_error, key_type_error, incompatible_error.
    released release() { return detail::release_outcome(redlatch_lock_release(handle_.get())); }

    /// As release(), for guards: logs what that would throw, see set_log().
    void unlock() noexcept {
        const std::int32_t status = redlatch_lock_release(handle_.get());
        if (status < 0) detail::log_last_error("unlock", status);
    }

    /// Resets the lease to its full ttl now, by one round trip. Only needed without auto_renew.
    ///
    /// Blocks for io_timeout at most. Throws lost_error, not_held_error, and from the server as lock(), after which the
    /// lease still counts until its deadline.
    void renew() { detail::expect_ok(redlatch_lock_renew(handle_.get())); }

    /// Throws unless this thread's lease is valid now, by the clock of this machine: lost_error, not_held_error. To be
    /// called before every step that must not happen twice. Asks no server.
    void check() const { detail::expect_ok(redlatch_lock_check(handle_.get())); }

    /// Whether check() would return. Asks no server.
    [[nodiscard]] bool is_held() const {
        std::int32_t held = 0;
        detail::expect_ok(redlatch_lock_is_held(handle_.get(), &held));
        return held != 0;
    }

    /// The fencing token of this thread's lease, for the protected resource, which should refuse a lower one than it
    /// has seen. It grows with every lease of the lock; nested holds share it. Also told of a lease that is lost, until
    /// it is released. Throws not_held_error.
    [[nodiscard]] std::uint64_t fence() const {
        std::uint64_t fence = 0;
        detail::expect_ok(redlatch_lock_fence(handle_.get(), &fence));
        return fence;
    }

    /// The token of this thread's lease. A secret. Throws not_held_error.
    [[nodiscard]] std::string token() const {
        return detail::read_token([this](char* buffer, std::size_t capacity, std::size_t* needed) {
            return redlatch_lock_token(handle_.get(), buffer, capacity, needed);
        });
    }

    /// How often this thread holds the lock; 0 when it does not.
    [[nodiscard]] std::uint32_t hold_count() const {
        std::uint32_t count = 0;
        detail::expect_ok(redlatch_lock_hold_count(handle_.get(), &count));
        return count;
    }

    /// The time until the deadline of this thread's lease, which renewal moves; 0 when it is over, and on a thread that
    /// does not hold the lock.
    [[nodiscard]] std::chrono::milliseconds remaining() const {
        std::int64_t remaining = 0;
        detail::expect_ok(redlatch_lock_remaining_ms(handle_.get(), &remaining));
        return std::chrono::milliseconds(remaining);
    }

    /// Why this thread's lease was lost; nothing while it is not, and on a thread that does not hold the lock.
    [[nodiscard]] std::optional<lost_reason> lost() const {
        std::int32_t reason = REDLATCH_LOST_NONE;
        detail::expect_ok(redlatch_lock_lost_reason(handle_.get(), &reason));
        return detail::reason_or_none(reason);
    }

    /// The lock's name.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// The handle of redlatch.h, which stays this object's.
    using native_handle_type = redlatch_lock*;
    [[nodiscard]] native_handle_type native_handle() const noexcept { return handle_.get(); }

private:
    [[nodiscard]] bool acquire(std::int64_t wait, const cancel_token* cancel) {
        if (cancel == nullptr) return detail::granted(redlatch_lock_acquire(handle_.get(), wait));
        return detail::granted(redlatch_lock_acquire_cancellable(handle_.get(), wait, cancel->native_handle()));
    }

    std::string name_;
    detail::owner<redlatch_lock, &redlatch_lock_free> handle_;
};

/// Gives up what `guard` owns with mutex::release(), and says how that ended; the guard has no mutex any more
/// afterwards. Throws not_held_error where it owns nothing; otherwise as mutex::release().
inline released release(std::unique_lock<mutex>& guard) {
    if (!guard.owns_lock()) throw not_held_error("the guard owns no lock");
    mutex* const held = guard.release();
    return held->release();
}

// ---------------------------------------------------------------------------------------------------------------
// Lease
// ---------------------------------------------------------------------------------------------------------------

/// A lock that belongs to its object: any thread may use and release it, nobody re-enters it, and its token moves it to
/// another process.
class lease {
public:
    /// A lease of the lock `name`, 1 to 1024 bytes; it is not held yet. Asks no server. Throws config_error,
    /// invalid_argument_error.
    explicit lease(const client& owner, std::string_view name, const lock_options& options = {}) {
        const redlatch_lock_options c = detail::lowered(options);
        redlatch_lease* handle = nullptr;
        detail::expect_ok(redlatch_lease_new(owner.native_handle(), client::text(name), name.size(), &c, &handle));
        handle_.reset(handle);
        detail::register_on_lost(options.on_lost, [handle](auto callback, void* data, auto destroy) {
            return redlatch_lease_on_lost(handle, callback, data, destroy);
        });
    }

    lease(lease&&) noexcept = default;

    /// What this lease had before ends as with its destructor.
    lease& operator=(lease&&) noexcept = default;

    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;

    /// A lock that it still has is released in the background, and a warning is logged; where this is the last of the
    /// client's objects, the key may lapse by its ttl instead.
    ~lease() = default;

    /// Acquires the lock for this object, and waits as long as somebody else has it. Throws in_use_error where it has
    /// the lock already, or another thread acquires through it; otherwise as mutex::lock(), without lost_error.
    void acquire() { detail::expect_ok(redlatch_lease_acquire(handle_.get(), REDLATCH_WAIT_FOREVER)); }

    /// As acquire(), until `cancel` is fired: cancelled_error.
    void acquire(const cancel_token& cancel) {
        detail::expect_ok(
            redlatch_lease_acquire_cancellable(handle_.get(), REDLATCH_WAIT_FOREVER, cancel.native_handle()));
    }

    /// Asks once; false where somebody else has the lock. Blocks for connect_timeout + io_timeout at most. Throws as
    /// acquire().
    [[nodiscard]] bool try_acquire() { return detail::granted(redlatch_lease_try_acquire(handle_.get())); }

    /// Waits for `wait` at most; as mutex::try_lock_for(). Throws as acquire().
    template <class Rep, class Period>
    [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& wait) {
        return acquire(detail::wait_ms(wait), nullptr);
    }

    /// As try_acquire_for(), until `cancel` is fired: cancelled_error.
    template <class Rep, class Period>
    [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& wait, const cancel_token& cancel) {
        return acquire(detail::wait_ms(wait), &cancel);
    }

    /// Waits until `until` at the latest; as mutex::try_lock_until(). Throws as acquire().
    template <class Clock, class Duration>
    [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& until) {
        return detail::acquire_until(until, [this](std::int64_t wait) { return acquire(wait, nullptr); });
    }

    /// As try_acquire_until(), until `cancel` is fired: cancelled_error.
    template <class Clock, class Duration>
    [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& until,
                                         const cancel_token& cancel) {
        return detail::acquire_until(until, [this, &cancel](std::int64_t wait) { return acquire(wait, &cancel); });
    }

    /// Stops renewal and releases the lock on the server. The object has no lock any more, whatever happens, and can
    /// acquire again. As mutex::release(), without released::still_held.
    released release() { return detail::release_outcome(redlatch_lease_release(handle_.get())); }

    /// As mutex::renew(), for this object.
    void renew() { detail::expect_ok(redlatch_lease_renew(handle_.get())); }

    /// As mutex::check(), for this object.
    void check() const { detail::expect_ok(redlatch_lease_check(handle_.get())); }

    /// Whether check() would return.
    [[nodiscard]] bool is_held() const {
        std::int32_t held = 0;
        detail::expect_ok(redlatch_lease_is_held(handle_.get(), &held));
        return held != 0;
    }

    /// As mutex::fence(), for this object.
    [[nodiscard]] std::uint64_t fence() const {
        std::uint64_t fence = 0;
        detail::expect_ok(redlatch_lease_fence(handle_.get(), &fence));
        return fence;
    }

    /// The token of this object's lease, which goes on. A secret. Throws not_held_error.
    [[nodiscard]] std::string token() const {
        return detail::read_token([this](char* buffer, std::size_t capacity, std::size_t* needed) {
            return redlatch_lease_token(handle_.get(), buffer, capacity, needed);
        });
    }

    /// As mutex::remaining(), for this object.
    [[nodiscard]] std::chrono::milliseconds remaining() const {
        std::int64_t remaining = 0;
        detail::expect_ok(redlatch_lease_remaining_ms(handle_.get(), &remaining));
        return std::chrono::milliseconds(remaining);
    }

    /// As mutex::lost(), for this object.
    [[nodiscard]] std::optional<lost_reason> lost() const {
        std::int32_t reason = REDLATCH_LOST_NONE;
        detail::expect_ok(redlatch_lease_lost_reason(handle_.get(), &reason));
        return detail::reason_or_none(reason);
    }

    /// Hands the lease over: renews it, stops renewal, releases nothing, and returns its token, with which
    /// client::adopt() takes it over, in any process, until its ttl has passed. The object can acquire again.
    ///
    /// Blocks for io_timeout at most, and once more where a request went unanswered before. Throws not_held_error, and
    /// in_use_error where another thread uses the lease at this moment, after which the object still has it. After any
    /// other exception the lease was not handed over, and is released: lost_error, and from the server as acquire().
    [[nodiscard]] std::string into_token() {
        return detail::read_token([this](char* buffer, std::size_t capacity, std::size_t* needed) {
            return redlatch_lease_into_token(handle_.get(), buffer, capacity, needed);
        });
    }

    /// Takes over the lease that `token` proves into this object, which must have none; false when the lock is not held
    /// by that token any more. As client::adopt(); in_use_error where it has the lock already.
    [[nodiscard]] bool adopt(std::string_view token) {
        const std::int32_t status = redlatch_lease_adopt(handle_.get(), client::text(token), token.size());
        if (status == REDLATCH_NOT_FOUND) return false;
        detail::expect_ok(status);
        return true;
    }

    /// The handle of redlatch.h, which stays this object's; NULL after a move.
    using native_handle_type = redlatch_lease*;
    [[nodiscard]] native_handle_type native_handle() const noexcept { return handle_.get(); }

private:
    [[nodiscard]] bool acquire(std::int64_t wait, const cancel_token* cancel) {
        if (cancel == nullptr) return detail::granted(redlatch_lease_acquire(handle_.get(), wait));
        return detail::granted(redlatch_lease_acquire_cancellable(handle_.get(), wait, cancel->native_handle()));
    }

    detail::owner<redlatch_lease, &redlatch_lease_free> handle_;
};

inline std::optional<lease> client::adopt(std::string_view name, std::string_view token,
                                          const lock_options& options) const {
    lease adopted(*this, name, options);
    if (!adopted.adopt(token)) return std::nullopt;
    return std::optional<lease>(std::move(adopted));
}

}  // namespace redlatch

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC visibility pop
#endif

#endif  // REDLATCH_HPP
