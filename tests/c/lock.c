/* The verbs of a lock against a server. */
#include "support.h"

struct locks {
    redlatch_client *client;
    redlatch_lock *lock;
};

static void *other_thread(void *data) {
    redlatch_lock *lock = ((struct locks *)data)->lock;
    int32_t held = 7, reason = 7;
    uint32_t count = 7;
    int64_t left = 7;
    EXPECT(REDLATCH_BUSY, redlatch_lock_try_acquire(lock));
    EXPECT(REDLATCH_BUSY, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_TIMED_OUT, redlatch_lock_acquire(lock, 60));
    /* A lock belongs to its thread. */
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    CHECK(error_says("only the holder can release it"));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_renew(lock));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_check(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_is_held(lock, &held));
    EXPECT(REDLATCH_OK, redlatch_lock_hold_count(lock, &count));
    EXPECT(REDLATCH_OK, redlatch_lock_remaining_ms(lock, &left));
    EXPECT(REDLATCH_OK, redlatch_lock_lost_reason(lock, &reason));
    CHECK(held == 0 && count == 0 && left == 0 && reason == REDLATCH_LOST_NONE);
    return NULL;
}

static void tokens(redlatch_lock *lock) {
    char token[REDLATCH_TOKEN_SIZE], small[16] = "before";
    size_t needed = 0;
    EXPECT(REDLATCH_TRUNCATED, redlatch_lock_token(lock, NULL, 0, &needed));
    CHECK(needed > 40 && needed < sizeof token);
    EXPECT(REDLATCH_OK, redlatch_lock_token(lock, token, needed, NULL));
    CHECK(strlen(token) + 1 == needed && strchr(token, '@') != NULL);
    EXPECT(REDLATCH_TRUNCATED, redlatch_lock_token(lock, token, needed - 1, NULL));
    needed = 0;
    EXPECT(REDLATCH_TRUNCATED, redlatch_lock_token(lock, small, sizeof small, &needed));
    CHECK(strcmp(small, "before") == 0 && needed == strlen(token) + 1);
}

void scenario_lock(char **args) {
    struct locks both;
    redlatch_lock *lock, *same;
    int32_t held = 0;
    uint64_t fence = 0, nested = 0, later = 0;
    uint32_t count = 0;
    int64_t left = 0;
    both.client = open_client(args[0]);
    both.lock = lock = new_lock(both.client, "lock");
    same = new_lock(both.client, "lock");
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_check(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER));
    EXPECT(REDLATCH_OK, look_up(args[0], "lock"));
    EXPECT(REDLATCH_OK, redlatch_lock_fence(lock, &fence));
    tokens(lock);
    on_thread(other_thread, &both);
    /* Nested, through another handle of the same name. */
    EXPECT(REDLATCH_OK, redlatch_lock_try_acquire(same));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(same, 100));
    EXPECT(REDLATCH_OK, redlatch_lock_hold_count(lock, &count));
    EXPECT(REDLATCH_OK, redlatch_lock_fence(same, &nested));
    CHECK(count == 3 && fence > 0 && nested == fence);
    EXPECT(REDLATCH_STILL_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_STILL_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_check(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_is_held(lock, &held));
    EXPECT(REDLATCH_OK, redlatch_lock_remaining_ms(lock, &left));
    CHECK(held == 1 && left > 20000 && left <= 30000);
    EXPECT(REDLATCH_OK, redlatch_lock_renew(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_release(same));
    EXPECT(REDLATCH_NOT_FOUND, look_up(args[0], "lock"));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 1000));
    EXPECT(REDLATCH_OK, redlatch_lock_fence(lock, &later));
    CHECK(later > fence);
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_lock_free(same);
    redlatch_lock_free(lock);
    redlatch_client_free(both.client);
}

static void *hold_and_end(void *data) {
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(((struct locks *)data)->lock, 0));
    return NULL;
}

/* A thread that ends while it holds a lock leaves it free. */
void scenario_threads(char **args) {
    struct locks both;
    both.client = open_client(args[0]);
    both.lock = new_lock(both.client, "threads");
    on_thread(hold_and_end, &both);
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(both.lock, 10000));
    EXPECT(REDLATCH_OK, redlatch_lock_release(both.lock));
    redlatch_lock_free(both.lock);
    redlatch_client_free(both.client);
}

/* Any characters, NULs included, and two names that differ after a NUL are two locks. */
void scenario_names(char **args) {
    static const char *names[] = {"two words", "\"quoted\"", "\xe9\x94\x81", "\xf0\x9f\x94\x92", "a\nb", "{a}:fence"};
    redlatch_client *client = open_client(args[0]), *other = open_client(args[0]);
    redlatch_lock *one = NULL, *two = NULL;
    char *json = NULL;
    size_t at;
    for (at = 0; at < sizeof names / sizeof *names; at++) {
        one = new_lock(client, names[at]);
        two = new_lock(other, names[at]);
        EXPECT(REDLATCH_OK, redlatch_lock_try_acquire(one));
        EXPECT(REDLATCH_BUSY, redlatch_lock_try_acquire(two));
        EXPECT(REDLATCH_OK, redlatch_lock_release(one));
        redlatch_lock_free(one);
        redlatch_lock_free(two);
    }
    EXPECT(REDLATCH_OK, redlatch_lock_new(client, "a\0b", 3, NULL, &one));
    EXPECT(REDLATCH_OK, redlatch_lock_new(other, "a\0c", 3, NULL, &two));
    EXPECT(REDLATCH_OK, redlatch_lock_try_acquire(one));
    EXPECT(REDLATCH_OK, redlatch_lock_try_acquire(two));
    EXPECT(REDLATCH_OK, redlatch_inspect(client, "a\0b", 3, &json));
    CHECK(strstr(json, "\"name\":\"a\\u0000b\"") != NULL);
    redlatch_string_free(json);
    EXPECT(REDLATCH_NOT_FOUND, redlatch_inspect(client, TEXT("a"), &json));
    EXPECT(REDLATCH_OK, redlatch_lock_release(one));
    EXPECT(REDLATCH_OK, redlatch_lock_release(two));
    redlatch_lock_free(one);
    redlatch_lock_free(two);
    redlatch_client_free(client);
    redlatch_client_free(other);
}

/* Handles may be freed in any order, and freeing a lock releases nothing. */
void scenario_order(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lock *first = new_lock(client, "order"), *second;
    redlatch_lease *lease = new_lease(client, "order-lease");
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(first, 0));
    redlatch_lock_free(first);
    EXPECT(REDLATCH_OK, look_up(args[0], "order"));
    second = new_lock(client, "order");
    redlatch_client_free(client);
    /* The client goes on while a handle of it lives. */
    EXPECT(REDLATCH_OK, redlatch_lock_check(second));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(second, 0));
    EXPECT(REDLATCH_STILL_HELD, redlatch_lock_release(second));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_release(second));
    EXPECT(REDLATCH_NOT_FOUND, look_up(args[0], "order"));
    redlatch_lock_free(second);
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
    EXPECT(REDLATCH_NOT_FOUND, look_up(args[0], "order-lease"));
    /* The last handle releases what is held. */
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    redlatch_lease_free(lease);
    EXPECT(REDLATCH_NOT_FOUND, look_up(args[0], "order-lease"));
    client = open_client(args[0]);
    first = new_lock(client, "order");
    redlatch_client_free(client);
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(first, 0));
    redlatch_lock_free(first);
    EXPECT(REDLATCH_NOT_FOUND, look_up(args[0], "order"));
}

/* inspect and force_release. */
void scenario_operator(char **args) {
    redlatch_client *client, *operator_client = open_client(args[0]);
    redlatch_client_options options;
    redlatch_lock *lock;
    int32_t reason = 7;
    uint64_t fence = 0;
    char token[REDLATCH_TOKEN_SIZE], expected[REDLATCH_TOKEN_SIZE + 16], *json = NULL;
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    options.label = "billing";
    client = NULL;
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(args[0]), &options, &client));
    lock = new_lock_with(client, "operator", 30000, 0, 1);
    EXPECT(REDLATCH_NOT_FOUND, redlatch_inspect(operator_client, TEXT("operator"), &json));
    CHECK(json == NULL);
    EXPECT(REDLATCH_NOT_FOUND, redlatch_force_release(operator_client, TEXT("operator")));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_token(lock, token, sizeof token, NULL));
    EXPECT(REDLATCH_OK, redlatch_inspect(operator_client, TEXT("operator"), &json));
    snprintf(expected, sizeof expected, "\"token\":\"%s\"", token);
    CHECK(strstr(json, expected) != NULL && strstr(json, "\"name\":\"operator\"") != NULL);
    CHECK(strstr(json, ":billing\",\"ttl_left_ms\":") != NULL && strstr(json, "\"waiters\":0}") != NULL);
    say(json);
    redlatch_string_free(json);
    EXPECT(REDLATCH_CONFIG, redlatch_inspect(operator_client, TEXT(""), &json));
    EXPECT(REDLATCH_CONFIG, redlatch_force_release(operator_client, TEXT("")));
    EXPECT(REDLATCH_OK, redlatch_force_release(operator_client, TEXT("operator")));
    EXPECT(REDLATCH_LOST, redlatch_lock_renew(lock));
    CHECK(redlatch_last_error_lost_reason() == REDLATCH_LOST_TAKEN && error_says("operator"));
    EXPECT(REDLATCH_OK, redlatch_last_error_message(expected, sizeof expected, NULL));
    CHECK(strstr(expected, token) == NULL);
    EXPECT(REDLATCH_LOST, redlatch_lock_check(lock));
    EXPECT(REDLATCH_LOST, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_lost_reason(lock, &reason));
    CHECK(reason == REDLATCH_LOST_TAKEN);
    EXPECT(REDLATCH_OK, redlatch_lock_fence(lock, &fence));
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    CHECK(fence > 0 && redlatch_last_error_lost_fence() == fence);
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    CHECK(redlatch_last_error_lost_fence() == 0);
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
    redlatch_client_free(client);
    redlatch_client_free(operator_client);
}

/* Prints the statistics while a lock is held whose name needs escaping; the test reads them. */
void scenario_stats(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lock *lock = NULL;
    struct locks both;
    char *json = NULL;
    EXPECT(REDLATCH_OK, redlatch_lock_new(client, TEXT("st\"at\\s\n"), NULL, &lock));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    both.client = client;
    both.lock = lock;
    on_thread(other_thread, &both);
    EXPECT(REDLATCH_OK, redlatch_client_stats_json(client, &json));
    say(json);
    redlatch_string_free(json);
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}

enum { THREADS = 100, ROUNDS = 5 };

struct counting {
    redlatch_lock *lock;
    /* Guarded by the lock on the server and by nothing else. */
    volatile long value;
    volatile uint64_t fence;
    volatile int inside;
};

static void *count(void *data) {
    struct counting *counting = data;
    int round;
    for (round = 0; round < ROUNDS; round++) {
        uint64_t fence = 0;
        EXPECT(REDLATCH_OK, redlatch_lock_acquire(counting->lock, 60000));
        EXPECT(REDLATCH_OK, redlatch_lock_fence(counting->lock, &fence));
        CHECK(counting->inside++ == 0);
        CHECK(fence > counting->fence);
        counting->fence = fence;
        counting->value++;
        CHECK(--counting->inside == 0);
        EXPECT(REDLATCH_OK, redlatch_lock_release(counting->lock));
    }
    return NULL;
}

/* A hundred threads count through one handle. */
void scenario_counter(char **args) {
    pthread_t threads[THREADS];
    struct counting counting = {NULL, 0, 0, 0};
    redlatch_client *client = open_client(args[0]);
    int at;
    counting.lock = new_lock(client, "counter");
    for (at = 0; at < THREADS; at++)
        threads[at] = start_thread(count, &counting);
    for (at = 0; at < THREADS; at++)
        join_thread(threads[at]);
    CHECK(counting.value == (long)THREADS * ROUNDS);
    redlatch_lock_free(counting.lock);
    redlatch_client_free(client);
}
