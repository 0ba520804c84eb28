/* A panic inside the library ends one call, and nothing else. For the build with the feature test-panic. */
#include "support.h"

int32_t redlatch_test_panic(void);

static void *panic_elsewhere(void *data) {
    (void)data;
    EXPECT(REDLATCH_INTERNAL, redlatch_test_panic());
    return NULL;
}

int main(int argc, char **argv) {
    redlatch_client *client;
    redlatch_lock *lock;
    if (argc != 2)
        return 2;
    client = open_client(argv[1]);
    lock = new_lock(client, "panic");
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 0));
    EXPECT(REDLATCH_INTERNAL, redlatch_test_panic());
    CHECK(error_says("a panic on demand"));
    on_thread(panic_elsewhere, NULL);
    EXPECT(REDLATCH_OK, redlatch_lock_check(lock));
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
    redlatch_client_free(client);
    return 0;
}
