/* Clients that come and go in a process that stays: threads and descriptors. */
#include <dirent.h>

#include "support.h"

#define ROUNDS 20

static long entries(const char *folder) {
    long count = 0;
    DIR *open = opendir(folder);
    CHECK(open != NULL);
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

static void use(const char *url, bool closes) {
    redlatch_client *client = open_client(url);
    redlatch_lease *held = new_lease(client, "reopen"), *waiting = new_lease(client, "reopen");
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(held, 5000));
    /* Who waits opens the inbox. */
    EXPECT(REDLATCH_TIMED_OUT, redlatch_lease_acquire(waiting, 10));
    EXPECT(REDLATCH_OK, redlatch_lease_release(held));
    redlatch_lease_free(waiting);
    redlatch_lease_free(held);
    if (closes)
        EXPECT(REDLATCH_OK, redlatch_client_close(client));
    redlatch_client_free(client);
}

static long threads, descriptors;

static bool as_before(void *data) {
    (void)data;
    return entries("/proc/self/task") <= threads && entries("/proc/self/fd") <= descriptors;
}

void scenario_reopen(char **args) {
    int round;
    threads = entries("/proc/self/task");
    descriptors = entries("/proc/self/fd");
    for (round = 0; round < ROUNDS; round++)
        use(args[0], round % 2 == 0);
    eventually(as_before, NULL, "no thread and no descriptor of a client is left");
}
