/* Faults on purpose, each of which a checker must find: deliberate KIND URL */
#include "support.h"

#include <limits.h>

int main(int argc, char **argv) {
    redlatch_client *client;
    if (argc != 3)
        return 2;
    client = open_client(argv[2]);
    if (strcmp(argv[1], "leak") == 0) {
        redlatch_lock *lock = new_lock(client, "never freed");
        lock = NULL;
        (void)lock;
    } else if (strcmp(argv[1], "use-after-free") == 0) {
        char *json = NULL;
        EXPECT(REDLATCH_OK, redlatch_client_stats_json(client, &json));
        redlatch_string_free(json);
        putchar(((volatile char *)json)[1]);
    } else if (strcmp(argv[1], "overflow") == 0) {
        volatile int largest = INT_MAX;
        printf("%d\n", largest + argc);
    } else if (strcmp(argv[1], "none") != 0) {
        return 2;
    }
    redlatch_client_free(client);
    return 0;
}
