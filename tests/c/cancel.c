/* Waits that are called off. */
#include "support.h"

struct waiting {
    redlatch_lock *lock;
    redlatch_lease *lease;
    redlatch_cancel *cancel;
    redlatch_client *client;
    struct counter done;
};

static void *wait_for_lock(void *data) {
    struct waiting *waiting = data;
    EXPECT(REDLATCH_CANCELLED, redlatch_lock_acquire_cancellable(waiting->lock, REDLATCH_WAIT_FOREVER, waiting->cancel));
    count_up(&waiting->done);
    return NULL;
}

static void *wait_for_lease(void *data) {
    struct waiting *waiting = data;
    EXPECT(REDLATCH_CANCELLED, redlatch_lease_acquire_cancellable(waiting->lease, 60000, waiting->cancel));
    count_up(&waiting->done);
    return NULL;
}

static void *wait_until_closed(void *data) {
    struct waiting *waiting = data;
    EXPECT(REDLATCH_CLOSED, redlatch_lock_acquire(waiting->lock, REDLATCH_WAIT_FOREVER));
    return NULL;
}

static bool two_wait(void *data) {
    char *json = NULL;
    bool two;
    EXPECT(REDLATCH_OK, redlatch_client_stats_json(((struct waiting *)data)->client, &json));
    two = strstr(json, "\"waiting_now\":2") != NULL;
    redlatch_string_free(json);
    return two;
}

static bool one_waits(void *data) {
    char *json = NULL;
    bool one;
    EXPECT(REDLATCH_OK, redlatch_client_stats_json(((struct waiting *)data)->client, &json));
    one = strstr(json, "\"waiting_now\":1") != NULL;
    redlatch_string_free(json);
    return one;
}

void scenario_cancel(char **args) {
    redlatch_client *client = open_client(args[0]), *other = open_client(args[0]);
    redlatch_lease *holder = new_lease(client, "cancel");
    struct waiting waiting = {NULL, NULL, NULL, NULL, COUNTER_INIT};
    pthread_t first, second;
    waiting.client = client;
    waiting.lock = new_lock(client, "cancel");
    waiting.lease = new_lease(client, "cancel");
    EXPECT(REDLATCH_OK, redlatch_cancel_new(&waiting.cancel));
    /* Not fired it changes nothing. */
    EXPECT(REDLATCH_OK, redlatch_lock_acquire_cancellable(waiting.lock, 0, waiting.cancel));
    EXPECT(REDLATCH_OK, redlatch_lock_release(waiting.lock));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(holder, 0));
    EXPECT(REDLATCH_TIMED_OUT, redlatch_lock_acquire_cancellable(waiting.lock, 50, waiting.cancel));
    EXPECT(REDLATCH_BUSY, redlatch_lease_acquire_cancellable(waiting.lease, 0, waiting.cancel));
    first = start_thread(wait_for_lock, &waiting);
    second = start_thread(wait_for_lease, &waiting);
    eventually(two_wait, &waiting, "both wait");
    CHECK(count_of(&waiting.done) == 0);
    EXPECT(REDLATCH_OK, redlatch_cancel_fire(waiting.cancel));
    EXPECT(REDLATCH_OK, redlatch_cancel_fire(waiting.cancel));
    join_thread(first);
    join_thread(second);
    CHECK(count_of(&waiting.done) == 2);
    /* It stays fired. */
    EXPECT(REDLATCH_CANCELLED, redlatch_lock_acquire_cancellable(waiting.lock, 1000, waiting.cancel));
    redlatch_cancel_free(waiting.cancel);
    first = start_thread(wait_until_closed, &waiting);
    eventually(one_waits, &waiting, "one waits");
    EXPECT(REDLATCH_OK, redlatch_client_close(client));
    EXPECT(REDLATCH_OK, redlatch_client_close(client));
    join_thread(first);
    EXPECT(REDLATCH_LOST, redlatch_lease_release(holder));
    CHECK(redlatch_last_error_lost_reason() == REDLATCH_LOST_CLOSED);
    EXPECT(REDLATCH_CLOSED, redlatch_lease_acquire(waiting.lease, 0));
    CHECK(redlatch_last_error_lost_reason() == REDLATCH_LOST_NONE);
    redlatch_lease_free(waiting.lease);
    redlatch_lease_free(holder);
    redlatch_lock_free(waiting.lock);
    redlatch_client_free(client);
    /* What the close left to its ttl. */
    EXPECT(REDLATCH_OK, redlatch_force_release(other, TEXT("cancel")));
    redlatch_client_free(other);
}
