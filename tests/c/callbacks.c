/* on_lost callbacks, and the end of their data. */
#include "support.h"

struct told {
    struct counter calls, destroyed;
    /* Of the last call; read once the call is counted. */
    char name[64], token[REDLATCH_TOKEN_SIZE];
    uint64_t fence;
    int32_t reason;
    pthread_t thread;
    /* What the callback, or destroy, is to do. */
    redlatch_client *close;
    redlatch_lock *free_lock;
};

#define TOLD_INIT {COUNTER_INIT, COUNTER_INIT, "", "", 0, 0, (pthread_t)0, NULL, NULL}

static void lost(const char *name, size_t name_len, const char *token, size_t token_len, uint64_t fence,
                 int32_t reason, void *user_data) {
    struct told *told = user_data;
    CHECK(count_of(&told->destroyed) == 0);
    CHECK(strlen(name) == name_len && strlen(token) == token_len);
    snprintf(told->name, sizeof told->name, "%s", name);
    snprintf(told->token, sizeof told->token, "%s", token);
    told->fence = fence;
    told->reason = reason;
    told->thread = pthread_self();
    if (told->close != NULL)
        EXPECT(REDLATCH_OK, redlatch_client_close(told->close));
    count_up(&told->calls);
}

static void destroy(void *user_data) {
    struct told *told = user_data;
    if (told->free_lock != NULL)
        redlatch_lock_free(told->free_lock);
    count_up(&told->destroyed);
}

/* Acquires, and has the lock taken away; returns once the callback was called. */
static void lose(redlatch_client *client, redlatch_lock *lock, const char *name, struct told *told) {
    long before = count_of(&told->calls);
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 1000));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT(name)));
    EXPECT(REDLATCH_LOST, redlatch_lock_renew(lock));
    await_count(&told->calls, before + 1, "calls of the callback");
}

void scenario_callbacks(char **args) {
    struct told lock_told = TOLD_INIT, lease_told = TOLD_INIT, closing = TOLD_INIT;
    redlatch_client *client = open_client(args[0]);
    redlatch_lock *lock = new_lock(client, "callbacks");
    redlatch_lease *lease = new_lease(client, "callbacks");
    char token[REDLATCH_TOKEN_SIZE];
    uint64_t fence = 0;
    /* Set while it is held, a callback is for the next lease. */
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &lock_told, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_STILL_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("callbacks")));
    EXPECT(REDLATCH_LOST, redlatch_lock_renew(lock));
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_fence(lock, &fence));
    EXPECT(REDLATCH_OK, redlatch_lock_token(lock, token, sizeof token, NULL));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("callbacks")));
    EXPECT(REDLATCH_LOST, redlatch_lock_renew(lock));
    await_count(&lock_told.calls, 1, "calls for the lock");
    CHECK(strcmp(lock_told.name, "callbacks") == 0 && strcmp(lock_told.token, token) == 0);
    CHECK(lock_told.fence == fence && lock_told.reason == REDLATCH_LOST_TAKEN);
    CHECK(!pthread_equal(lock_told.thread, pthread_self()));
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    /* A release in good order tells nobody. */
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    CHECK(count_of(&lock_told.calls) == 1);
    EXPECT(REDLATCH_OK, redlatch_lease_on_lost(lease, lost, &lease_told, destroy));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("callbacks")));
    EXPECT(REDLATCH_LOST, redlatch_lease_renew(lease));
    await_count(&lease_told.calls, 1, "calls for the lease");
    EXPECT(REDLATCH_LOST, redlatch_lease_release(lease));
    redlatch_lease_free(lease);
    await_count(&lease_told.destroyed, 1, "ends of the lease's data");
    /* A callback may close the client; the next loss is that of the close. */
    closing.close = client;
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &closing, destroy));
    await_count(&lock_told.destroyed, 1, "ends of the replaced data");
    lose(client, lock, "callbacks", &closing);
    EXPECT(REDLATCH_CLOSED, redlatch_inspect(client, TEXT("callbacks"), (char *[]){NULL}));
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    EXPECT(REDLATCH_CLOSED, redlatch_lock_acquire(lock, 0));
    redlatch_lock_free(lock);
    await_count(&closing.destroyed, 1, "ends of the closing data");
    redlatch_client_free(client);
    CHECK(count_of(&closing.calls) == 1 && count_of(&lock_told.calls) == 1 && count_of(&lease_told.calls) == 1);
    CHECK(count_of(&lock_told.destroyed) == 1 && count_of(&lease_told.destroyed) == 1);
}

static void *hold_and_end(void *data) {
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(data, 1000));
    return NULL;
}

/* destroy: once, and after the last call, whatever goes first. */
void scenario_destroy(char **args) {
    struct told never = TOLD_INIT, replaced = TOLD_INIT, removed = TOLD_INIT, freed = TOLD_INIT, chained = TOLD_INIT;
    struct told without = TOLD_INIT, refused = TOLD_INIT, last = TOLD_INIT, ended = TOLD_INIT;
    redlatch_client *client = open_client(args[0]), *doomed;
    redlatch_lock *lock = new_lock(client, "destroy"), *other;
    char *json = NULL;
    /* Never acquired with; replaced; removed: at once, in the call. */
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &never, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &replaced, destroy));
    CHECK(count_of(&never.destroyed) == 1);
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, NULL, NULL, NULL));
    CHECK(count_of(&replaced.destroyed) == 1);
    /* Data without a callback is data too. */
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, NULL, &without, destroy));
    CHECK(count_of(&without.destroyed) == 1);
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_lock_on_lost(NULL, lost, &refused, destroy));
    CHECK(count_of(&refused.destroyed) == 0);
    /* Removed while a lease has it: the lease still tells it. */
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &removed, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, NULL, NULL, NULL));
    CHECK(count_of(&removed.destroyed) == 0);
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("destroy")));
    EXPECT(REDLATCH_LOST, redlatch_lock_renew(lock));
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    await_count(&removed.calls, 1, "calls of a removed callback for an older lease");
    await_count(&removed.destroyed, 1, "ends of the removed data");
    /* The handle goes while its lease lives; released through another handle. */
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &freed, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    redlatch_lock_free(lock);
    CHECK(count_of(&freed.destroyed) == 0);
    other = new_lock(client, "destroy");
    EXPECT(REDLATCH_OK, redlatch_lock_release(other));
    await_count(&freed.destroyed, 1, "ends of the data of a freed handle");
    CHECK(count_of(&freed.calls) == 0);
    redlatch_lock_free(other);
    /* The thread that holds it ends, and the library releases it. */
    lock = new_lock(client, "destroy");
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &ended, destroy));
    on_thread(hold_and_end, lock);
    redlatch_lock_free(lock);
    await_count(&ended.destroyed, 1, "ends of the data of a thread that ended");
    CHECK(count_of(&ended.calls) == 0);
    /* destroy frees the last handle of a client that still holds a lock, which is released by that. */
    doomed = open_client(args[0]);
    lock = new_lock(doomed, "destroy");
    chained.free_lock = new_lock(doomed, "chained");
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &chained, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(chained.free_lock, lost, &last, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(chained.free_lock, 0));
    redlatch_client_free(doomed);
    redlatch_lock_free(lock);
    await_count(&chained.destroyed, 1, "ends of data that frees a lock");
    await_count(&last.destroyed, 1, "ends of the data of the last handle");
    CHECK(count_of(&last.calls) == 0);
    EXPECT(REDLATCH_NOT_FOUND, redlatch_inspect(client, TEXT("chained"), &json));
    CHECK(count_of(&never.destroyed) == 1 && count_of(&replaced.destroyed) == 1 && count_of(&removed.destroyed) == 1);
    CHECK(count_of(&never.calls) == 0 && count_of(&replaced.calls) == 0 && count_of(&chained.calls) == 0);
    redlatch_client_free(client);
}
