/* Options: defaults, refusals that name option and bounds, and structs of other versions. */
#include "support.h"

#include <stddef.h>

static int32_t try_open(const redlatch_client_options *options) {
    redlatch_client *client = NULL;
    int32_t status = redlatch_client_open(TEXT("memory://"), options, &client);
    CHECK((status == REDLATCH_OK) == (client != NULL));
    redlatch_client_free(client);
    return status;
}

static int32_t try_lock(redlatch_client *client, const redlatch_lock_options *options) {
    redlatch_lock *lock = NULL;
    redlatch_lease *lease = NULL;
    int32_t status = redlatch_lock_new(client, TEXT("options"), options, &lock);
    CHECK((status == REDLATCH_OK) == (lock != NULL));
    EXPECT(status, redlatch_lease_new(client, TEXT("options"), options, &lease));
    CHECK((status == REDLATCH_OK) == (lease != NULL));
    redlatch_lock_free(lock);
    redlatch_lease_free(lease);
    return status;
}

static redlatch_client_options fresh(void) {
    redlatch_client_options options;
    memset(&options, 0xAA, sizeof options);
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    return options;
}

/* The message names the option and what it would accept. */
#define REFUSED(field, name, value)                          \
    do {                                                     \
        redlatch_client_options changed = fresh();           \
        changed.field = (value);                             \
        EXPECT(REDLATCH_CONFIG, try_open(&changed));         \
        CHECK(error_says(name " = ") && error_says("from ")); \
    } while (0)

static void client_values(void) {
    redlatch_client_options options = fresh();
    CHECK(options.size == sizeof options && options.reserved == 0);
    CHECK(options.connect_timeout_ms == 1000 && options.io_timeout_ms == 1000 && options.pool_timeout_ms == 0);
    CHECK(options.unavailable_after_ms == 10000 && options.fence_retention_ms == 3600000 && options.turn_ms == 1000);
    CHECK(options.replica_timeout_ms == 100 && options.min_replicas == 0);
    CHECK(options.pool_size == 8 && options.renewal_threads == 2);
    CHECK(options.key_prefix == NULL && options.key_prefix_len == REDLATCH_NUL_TERMINATED);
    EXPECT(REDLATCH_OK, try_open(&options));
    EXPECT(REDLATCH_OK, try_open(NULL));
    REFUSED(connect_timeout_ms, "connect_timeout", 9);
    REFUSED(io_timeout_ms, "io_timeout", 60001);
    REFUSED(io_timeout_ms, "io_timeout", -1);
    REFUSED(pool_timeout_ms, "pool_timeout", 5);
    REFUSED(unavailable_after_ms, "unavailable_after", 99);
    REFUSED(fence_retention_ms, "fence_retention", 999);
    REFUSED(turn_ms, "turn", INT64_MAX);
    REFUSED(replica_timeout_ms, "replica_timeout", 0);
    REFUSED(min_replicas, "min_replicas", 17);
    REFUSED(pool_size, "pool_size", 0);
    REFUSED(renewal_threads, "renewal_threads", 65);
    options.pool_timeout_ms = 500;
    options.key_prefix = "mine:";
    options.label = "worker-1 and more";
    options.label_len = strlen("worker-1");
    EXPECT(REDLATCH_OK, try_open(&options));
    options.label_len = REDLATCH_NUL_TERMINATED;
    EXPECT(REDLATCH_CONFIG, try_open(&options));
    CHECK(error_says("label"));
    options = fresh();
    options.key_prefix = "\xff";
    EXPECT(REDLATCH_INVALID_ARGUMENT, try_open(&options));
    CHECK(error_says("key_prefix"));
    options = fresh();
    options.tls_ca = "missing.pem";
    EXPECT(REDLATCH_CONFIG, try_open(&options));
    CHECK(error_says("tls_ca"));
    options = fresh();
    options.tls_cert = "missing.pem";
    EXPECT(REDLATCH_CONFIG, try_open(&options));
    options = fresh();
    options.tls_key = "missing.pem";
    EXPECT(REDLATCH_CONFIG, try_open(&options));
}

static void lock_values(redlatch_client *client) {
    static const int64_t refused_ttls[] = {0, -1, 99, 86400001, INT64_MAX, INT64_MIN};
    redlatch_lock_options options = lock_options(30000, 0, 1), defaults;
    size_t at;
    EXPECT(REDLATCH_OK, redlatch_lock_options_init(&defaults, sizeof defaults));
    CHECK(defaults.size == sizeof defaults && defaults.ttl_ms == 30000 && defaults.max_hold_ms == 0);
    CHECK(defaults.auto_renew == 1 && defaults.reserved == 0);
    EXPECT(REDLATCH_OK, try_lock(client, &defaults));
    EXPECT(REDLATCH_OK, try_lock(client, NULL));
    for (at = 0; at < sizeof refused_ttls / sizeof *refused_ttls; at++) {
        options.ttl_ms = refused_ttls[at];
        EXPECT(REDLATCH_CONFIG, try_lock(client, &options));
        CHECK(error_says("ttl") && error_says("100ms") && error_says("86400s"));
    }
    options = lock_options(10000, 5000, 1);
    EXPECT(REDLATCH_CONFIG, try_lock(client, &options));
    CHECK(error_says("max_hold"));
    options = lock_options(10000, 0, 2);
    EXPECT(REDLATCH_CONFIG, try_lock(client, &options));
    CHECK(error_says("auto_renew = 2"));
    options = lock_options(10000, 20000, 0);
    EXPECT(REDLATCH_OK, try_lock(client, &options));
}

/* A struct of a later version of the header. */
typedef struct later_options {
    redlatch_lock_options known;
    uint64_t more[2];
} later_options;

static void sizes(redlatch_client *client) {
    redlatch_lock_options options = lock_options(30000, 0, 1);
    redlatch_client_options client_options = fresh();
    later_options later;
    size_t at;
    static const size_t wrong[] = {0, 1, sizeof(size_t), sizeof(redlatch_lock_options) - 1, 4097, (size_t)-1};
    for (at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        options.size = wrong[at];
        EXPECT(REDLATCH_INVALID_ARGUMENT, try_lock(client, &options));
        CHECK(error_says("size"));
        EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_lock_options_init(&options, wrong[at]));
        client_options.size = wrong[at];
        EXPECT(REDLATCH_INVALID_ARGUMENT, try_open(&client_options));
    }
    memset(&later, 0xAA, sizeof later);
    EXPECT(REDLATCH_OK, redlatch_lock_options_init(&later.known, sizeof later));
    CHECK(later.known.size == sizeof later && later.known.ttl_ms == 30000);
    CHECK(later.more[0] == 0 && later.more[1] == 0);
    EXPECT(REDLATCH_OK, try_lock(client, &later.known));
    later.more[1] = (uint64_t)1 << 63;
    EXPECT(REDLATCH_INVALID_ARGUMENT, try_lock(client, &later.known));
    CHECK(error_says("does not know"));
    options = lock_options(30000, 0, 1);
    options.reserved = 1;
    EXPECT(REDLATCH_INVALID_ARGUMENT, try_lock(client, &options));
    CHECK(error_says("reserved"));
    client_options = fresh();
    client_options.reserved = 1;
    EXPECT(REDLATCH_INVALID_ARGUMENT, try_open(&client_options));
}

static void urls(void) {
    static const char *refused[] = {"", "http://127.0.0.1/", "127.0.0.1:6379", "memory"};
    redlatch_client *client = NULL;
    size_t at;
    for (at = 0; at < sizeof refused / sizeof *refused; at++) {
        EXPECT(REDLATCH_CONFIG, redlatch_client_open(TEXT(refused[at]), NULL, &client));
        CHECK(client == NULL && error_says("url"));
    }
}

void scenario_options(char **args) {
    redlatch_client *client = open_client("memory://");
    (void)args;
    client_values();
    lock_values(client);
    sizes(client);
    urls();
    redlatch_client_free(client);
}
