/* Calls that are wrong in themselves: no crash, nothing written, a message that names the argument. */
#include "support.h"

#define INVALID(argument, call)                        \
    do {                                               \
        EXPECT(REDLATCH_INVALID_ARGUMENT, call);       \
        CHECK(error_says(argument));                   \
    } while (0)

static void client_arguments(redlatch_client *client) {
    redlatch_client *made = client;
    char *json = (char *)"before";
    INVALID("url", redlatch_client_open(NULL, 0, NULL, &made));
    CHECK(made == NULL);
    INVALID("client", redlatch_client_open(TEXT("memory://"), NULL, NULL));
    INVALID("client", redlatch_client_close(NULL));
    INVALID("client", redlatch_inspect(NULL, TEXT("a"), &json));
    CHECK(json == NULL);
    INVALID("name", redlatch_inspect(client, NULL, 0, &json));
    INVALID("json", redlatch_inspect(client, TEXT("a"), NULL));
    INVALID("client", redlatch_force_release(NULL, TEXT("a")));
    INVALID("name", redlatch_force_release(client, NULL, 3));
    json = (char *)"before";
    INVALID("client", redlatch_client_stats_json(NULL, &json));
    CHECK(json == NULL);
    INVALID("json", redlatch_client_stats_json(client, NULL));
    INVALID("client", redlatch_check_server(NULL, NULL, NULL, NULL));
    INVALID("options", redlatch_client_options_init(NULL, sizeof(redlatch_client_options)));
    INVALID("options", redlatch_lock_options_init(NULL, sizeof(redlatch_lock_options)));
}

static void lock_arguments(redlatch_client *client, redlatch_lock *lock) {
    redlatch_lock *made = lock;
    redlatch_cancel *cancel = NULL;
    int32_t held = 7, reason = 7;
    uint64_t fence = 7;
    uint32_t count = 7;
    int64_t left = 7;
    char token[REDLATCH_TOKEN_SIZE] = "before";
    size_t needed = 7;
    EXPECT(REDLATCH_OK, redlatch_cancel_new(&cancel));
    INVALID("client", redlatch_lock_new(NULL, TEXT("a"), NULL, &made));
    CHECK(made == NULL);
    INVALID("name", redlatch_lock_new(client, NULL, 1, NULL, &made));
    INVALID("lock", redlatch_lock_new(client, TEXT("a"), NULL, NULL));
    INVALID("lock", redlatch_lock_acquire(NULL, 0));
    INVALID("lock", redlatch_lock_try_acquire(NULL));
    INVALID("lock", redlatch_lock_acquire_cancellable(NULL, 0, cancel));
    INVALID("cancel", redlatch_lock_acquire_cancellable(lock, 0, NULL));
    INVALID("lock", redlatch_lock_release(NULL));
    INVALID("lock", redlatch_lock_renew(NULL));
    INVALID("lock", redlatch_lock_check(NULL));
    INVALID("lock", redlatch_lock_is_held(NULL, &held));
    INVALID("held", redlatch_lock_is_held(lock, NULL));
    INVALID("lock", redlatch_lock_fence(NULL, &fence));
    INVALID("fence", redlatch_lock_fence(lock, NULL));
    INVALID("lock", redlatch_lock_token(NULL, token, sizeof token, &needed));
    INVALID("lock", redlatch_lock_hold_count(NULL, &count));
    INVALID("count", redlatch_lock_hold_count(lock, NULL));
    INVALID("lock", redlatch_lock_remaining_ms(NULL, &left));
    INVALID("remaining_ms", redlatch_lock_remaining_ms(lock, NULL));
    INVALID("lock", redlatch_lock_lost_reason(NULL, &reason));
    INVALID("reason", redlatch_lock_lost_reason(lock, NULL));
    INVALID("lock", redlatch_lock_on_lost(NULL, NULL, NULL, NULL));
    INVALID("cancel", redlatch_cancel_new(NULL));
    INVALID("cancel", redlatch_cancel_fire(NULL));
    /* Outputs are written on success only. */
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_fence(lock, &fence));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_token(lock, token, sizeof token, &needed));
    CHECK(held == 7 && reason == 7 && fence == 7 && count == 7 && left == 7 && needed == 7);
    CHECK(strcmp(token, "before") == 0);
    INVALID("wait_ms", redlatch_lock_acquire(lock, -2));
    INVALID("wait_ms", redlatch_lock_acquire(lock, INT64_MIN));
    INVALID("wait_ms", redlatch_lock_acquire_cancellable(lock, -2, cancel));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    INVALID("buffer", redlatch_lock_token(lock, NULL, 5, &needed));
    CHECK(needed == 7);
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_cancel_free(cancel);
}

static void lease_arguments(redlatch_client *client, redlatch_lease *lease) {
    redlatch_lease *made = lease;
    redlatch_cancel *cancel = NULL;
    int32_t held = 7, reason = 7;
    uint64_t fence = 7;
    int64_t left = 7;
    char token[REDLATCH_TOKEN_SIZE] = "before";
    size_t needed = 7;
    EXPECT(REDLATCH_OK, redlatch_cancel_new(&cancel));
    INVALID("client", redlatch_lease_new(NULL, TEXT("a"), NULL, &made));
    CHECK(made == NULL);
    INVALID("name", redlatch_lease_new(client, NULL, 1, NULL, &made));
    INVALID("lease", redlatch_lease_new(client, TEXT("a"), NULL, NULL));
    INVALID("lease", redlatch_lease_acquire(NULL, 0));
    INVALID("wait_ms", redlatch_lease_acquire(lease, -2));
    INVALID("lease", redlatch_lease_try_acquire(NULL));
    INVALID("lease", redlatch_lease_acquire_cancellable(NULL, 0, cancel));
    INVALID("cancel", redlatch_lease_acquire_cancellable(lease, 0, NULL));
    INVALID("lease", redlatch_lease_release(NULL));
    INVALID("lease", redlatch_lease_renew(NULL));
    INVALID("lease", redlatch_lease_check(NULL));
    INVALID("lease", redlatch_lease_is_held(NULL, &held));
    INVALID("held", redlatch_lease_is_held(lease, NULL));
    INVALID("lease", redlatch_lease_fence(NULL, &fence));
    INVALID("fence", redlatch_lease_fence(lease, NULL));
    INVALID("lease", redlatch_lease_token(NULL, token, sizeof token, &needed));
    INVALID("lease", redlatch_lease_remaining_ms(NULL, &left));
    INVALID("remaining_ms", redlatch_lease_remaining_ms(lease, NULL));
    INVALID("lease", redlatch_lease_lost_reason(NULL, &reason));
    INVALID("reason", redlatch_lease_lost_reason(lease, NULL));
    INVALID("lease", redlatch_lease_on_lost(NULL, NULL, NULL, NULL));
    INVALID("lease", redlatch_lease_into_token(NULL, token, sizeof token, &needed));
    made = lease;
    INVALID("client", redlatch_adopt(NULL, TEXT("a"), TEXT("t"), NULL, &made));
    CHECK(made == NULL);
    INVALID("name", redlatch_adopt(client, NULL, 0, TEXT("t"), NULL, &made));
    INVALID("token", redlatch_adopt(client, TEXT("a"), NULL, 0, NULL, &made));
    INVALID("lease", redlatch_adopt(client, TEXT("a"), TEXT("t"), NULL, NULL));
    INVALID("lease", redlatch_lease_adopt(NULL, TEXT("t")));
    INVALID("token", redlatch_lease_adopt(lease, NULL, 0));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    INVALID("buffer", redlatch_lease_token(lease, NULL, 5, &needed));
    INVALID("buffer", redlatch_lease_into_token(lease, NULL, 500, &needed));
    EXPECT(REDLATCH_OK, redlatch_lease_check(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
    CHECK(held == 7 && reason == 7 && fence == 7 && left == 7 && needed == 7);
    CHECK(strcmp(token, "before") == 0);
    redlatch_cancel_free(cancel);
}

static void *no_error_yet(void *data) {
    char message[4] = "xyz";
    size_t needed = 0;
    (void)data;
    EXPECT(REDLATCH_OK, redlatch_last_error_message(message, sizeof message, &needed));
    CHECK(needed == 1 && message[0] == '\0');
    CHECK(redlatch_last_error_lost_reason() == REDLATCH_LOST_NONE);
    return NULL;
}

static void last_error(void) {
    char message[64] = "before";
    size_t needed = 0;
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_client_close(NULL));
    EXPECT(REDLATCH_OK, redlatch_last_error_message(message, sizeof message, &needed));
    CHECK(strcmp(message, "client is NULL") == 0 && needed == sizeof "client is NULL");
    EXPECT(REDLATCH_TRUNCATED, redlatch_last_error_message(message, 7, &needed));
    CHECK(strcmp(message, "client") == 0 && needed == sizeof "client is NULL");
    EXPECT(REDLATCH_TRUNCATED, redlatch_last_error_message(NULL, 0, &needed));
    EXPECT(REDLATCH_OK, redlatch_last_error_message(message, sizeof "client is NULL", NULL));
    /* A wrong question leaves the answer alone. */
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_last_error_message(NULL, 9, &needed));
    CHECK(error_says("client is NULL"));
    on_thread(no_error_yet, NULL);
}

static void static_texts(void) {
    static const struct {
        int32_t status;
        const char *name;
    } statuses[] = {
        {REDLATCH_OK, "REDLATCH_OK"},
        {REDLATCH_BUSY, "REDLATCH_BUSY"},
        {REDLATCH_TIMED_OUT, "REDLATCH_TIMED_OUT"},
        {REDLATCH_STILL_HELD, "REDLATCH_STILL_HELD"},
        {REDLATCH_UNCONFIRMED, "REDLATCH_UNCONFIRMED"},
        {REDLATCH_CANCELLED, "REDLATCH_CANCELLED"},
        {REDLATCH_NOT_FOUND, "REDLATCH_NOT_FOUND"},
        {REDLATCH_TRUNCATED, "REDLATCH_TRUNCATED"},
        {REDLATCH_INVALID_ARGUMENT, "REDLATCH_INVALID_ARGUMENT"},
        {REDLATCH_CONFIG, "REDLATCH_CONFIG"},
        {REDLATCH_LOST, "REDLATCH_LOST"},
        {REDLATCH_NOT_HELD, "REDLATCH_NOT_HELD"},
        {REDLATCH_UNAVAILABLE, "REDLATCH_UNAVAILABLE"},
        {REDLATCH_AUTHENTICATION, "REDLATCH_AUTHENTICATION"},
        {REDLATCH_PERMISSION, "REDLATCH_PERMISSION"},
        {REDLATCH_KEY_TYPE, "REDLATCH_KEY_TYPE"},
        {REDLATCH_INCOMPATIBLE, "REDLATCH_INCOMPATIBLE"},
        {REDLATCH_CLOSED, "REDLATCH_CLOSED"},
        {REDLATCH_NOT_REPLICATED, "REDLATCH_NOT_REPLICATED"},
        {REDLATCH_IN_USE, "REDLATCH_IN_USE"},
        {REDLATCH_INTERNAL, "REDLATCH_INTERNAL"},
        {4711, "unknown status"},
        {-13, "unknown status"},
    };
    static const char *reasons[] = {"none", "expired", "taken", "max_hold", "forked", "closed", "internal", "unknown"};
    char version[32];
    size_t at;
    for (at = 0; at < sizeof statuses / sizeof *statuses; at++)
        CHECK(strcmp(redlatch_status_name(statuses[at].status), statuses[at].name) == 0);
    for (at = 0; at < sizeof reasons / sizeof *reasons; at++)
        CHECK(strcmp(redlatch_lost_reason_name((int32_t)at), reasons[at]) == 0);
    CHECK(REDLATCH_LOST_INTERNAL == 6 && strcmp(redlatch_lost_reason_name(-1), "unknown") == 0);
    CHECK(strcmp(redlatch_version(), REDLATCH_VERSION) == 0);
    snprintf(version, sizeof version, "%d.%d.%d", REDLATCH_VERSION_MAJOR, REDLATCH_VERSION_MINOR,
             REDLATCH_VERSION_PATCH);
    CHECK(strcmp(version, REDLATCH_VERSION) == 0);
}

static void texts(redlatch_client *client) {
    redlatch_lock *lock = NULL;
    char name[1026];
    INVALID("UTF-8", redlatch_lock_new(client, "a\xff", 2, NULL, &lock));
    INVALID("UTF-8", redlatch_lock_new(client, "caf\xc3", REDLATCH_NUL_TERMINATED, NULL, &lock));
    INVALID("length", redlatch_lock_new(client, "a", (size_t)-2, NULL, &lock));
    EXPECT(REDLATCH_CONFIG, redlatch_lock_new(client, "", 0, NULL, &lock));
    CHECK(error_says("name"));
    memset(name, 'n', sizeof name);
    EXPECT(REDLATCH_CONFIG, redlatch_lock_new(client, name, 1025, NULL, &lock));
    CHECK(lock == NULL);
    EXPECT(REDLATCH_OK, redlatch_lock_new(client, name, 1024, NULL, &lock));
    redlatch_lock_free(lock);
}

void scenario_arguments(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lock *lock = new_lock(client, "arguments");
    redlatch_lease *lease = new_lease(client, "arguments");
    client_arguments(client);
    lock_arguments(client, lock);
    lease_arguments(client, lease);
    last_error();
    static_texts();
    texts(client);
    redlatch_client_free(NULL);
    redlatch_lock_free(NULL);
    redlatch_lease_free(NULL);
    redlatch_cancel_free(NULL);
    redlatch_string_free(NULL);
    redlatch_lease_free(lease);
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}
