/* Leases: between threads, between processes. */
#include "support.h"

static void *use_and_release(void *data) {
    redlatch_lease *lease = data;
    EXPECT(REDLATCH_OK, redlatch_lease_check(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_renew(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
    return NULL;
}

static bool is_free(void *data) {
    char **args = data;
    return look_up(args[0], args[1]) == REDLATCH_NOT_FOUND;
}

static void hand_over(const char *url, redlatch_client *client, redlatch_lease *lease) {
    redlatch_lease *adopted = lease;
    char token[REDLATCH_TOKEN_SIZE] = "before", old[REDLATCH_TOKEN_SIZE];
    size_t needed = 0;
    uint64_t fence = 0, later = 0;
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_into_token(lease, token, sizeof token, &needed));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_lease_token(lease, old, sizeof old, NULL));
    /* Too small a buffer hands nothing over. */
    EXPECT(REDLATCH_TRUNCATED, redlatch_lease_into_token(lease, NULL, 0, &needed));
    EXPECT(REDLATCH_TRUNCATED, redlatch_lease_into_token(lease, token, needed - 1, &needed));
    CHECK(strcmp(token, "before") == 0 && needed == strlen(old) + 1);
    EXPECT(REDLATCH_OK, redlatch_lease_check(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_fence(lease, &fence));
    EXPECT(REDLATCH_OK, redlatch_lease_into_token(lease, token, needed, &needed));
    CHECK(strcmp(token, old) == 0);
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_check(lease));
    EXPECT(REDLATCH_OK, look_up(url, "lease"));
    EXPECT(REDLATCH_OK, redlatch_adopt(client, TEXT("lease"), token, strlen(token), NULL, &adopted));
    EXPECT(REDLATCH_OK, redlatch_lease_fence(adopted, &later));
    CHECK(later > fence);
    EXPECT(REDLATCH_OK, redlatch_lease_into_token(adopted, old, sizeof old, NULL));
    redlatch_lease_free(adopted);
    adopted = lease;
    EXPECT(REDLATCH_NOT_FOUND, redlatch_adopt(client, TEXT("lease"), TEXT(token), NULL, &adopted));
    CHECK(adopted == NULL);
    EXPECT(REDLATCH_NOT_FOUND, redlatch_lease_adopt(lease, TEXT(token)));
    EXPECT(REDLATCH_CONFIG, redlatch_lease_adopt(lease, "", 0));
    EXPECT(REDLATCH_CONFIG, redlatch_adopt(client, TEXT("lease"), TEXT(""), NULL, &adopted));
    EXPECT(REDLATCH_OK, redlatch_lease_adopt(lease, TEXT(old)));
    EXPECT(REDLATCH_IN_USE, redlatch_lease_adopt(lease, TEXT(old)));
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
}

void scenario_lease(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lease *lease = new_lease(client, "lease"), *other = new_lease(client, "lease");
    int32_t held = 7, reason = 7;
    int64_t left = 7;
    uint64_t fence = 0;
    char *abandoned[2];
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_release(lease));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_check(lease));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_renew(lease));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_fence(lease, &fence));
    EXPECT(REDLATCH_OK, redlatch_lease_is_held(lease, &held));
    EXPECT(REDLATCH_OK, redlatch_lease_remaining_ms(lease, &left));
    EXPECT(REDLATCH_OK, redlatch_lease_lost_reason(lease, &reason));
    CHECK(held == 0 && left == 0 && reason == REDLATCH_LOST_NONE);
    EXPECT(REDLATCH_OK, redlatch_lease_try_acquire(lease));
    EXPECT(REDLATCH_IN_USE, redlatch_lease_acquire(lease, 0));
    CHECK(error_says("not re-entrant"));
    EXPECT(REDLATCH_BUSY, redlatch_lease_try_acquire(other));
    EXPECT(REDLATCH_TIMED_OUT, redlatch_lease_acquire(other, 50));
    EXPECT(REDLATCH_OK, redlatch_lease_is_held(lease, &held));
    EXPECT(REDLATCH_OK, redlatch_lease_remaining_ms(lease, &left));
    CHECK(held == 1 && left > 20000);
    on_thread(use_and_release, lease);
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(other, REDLATCH_WAIT_FOREVER));
    EXPECT(REDLATCH_OK, redlatch_lease_release(other));
    hand_over(args[0], client, lease);
    /* Freed while it holds: the background releases. */
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(other, 1000));
    redlatch_lease_free(other);
    abandoned[0] = args[0];
    abandoned[1] = (char *)"lease";
    eventually(is_free, abandoned, "a lease whose handle was freed is released");
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("lease")));
    EXPECT(REDLATCH_LOST, redlatch_lease_renew(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_lost_reason(lease, &reason));
    CHECK(reason == REDLATCH_LOST_TAKEN);
    EXPECT(REDLATCH_LOST, redlatch_lease_into_token(lease, abandoned[1] = malloc(600), 600, NULL));
    free(abandoned[1]);
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_release(lease));
    redlatch_lease_free(lease);
    redlatch_client_free(client);
}

/* Two processes: one acquires and prints the token, the other adopts it. */
void scenario_give(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lease *lease = new_lease(client, "handed over");
    char token[REDLATCH_TOKEN_SIZE];
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_lease_into_token(lease, token, sizeof token, NULL));
    redlatch_lease_free(lease);
    redlatch_client_free(client);
    say(token);
}

void scenario_take(char **args) {
    redlatch_client *client = open_client(args[0]);
    redlatch_lease *lease = NULL;
    EXPECT(REDLATCH_OK, redlatch_adopt(client, TEXT("handed over"), TEXT(args[1]), NULL, &lease));
    EXPECT(REDLATCH_OK, redlatch_lease_check(lease));
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
    redlatch_lease_free(lease);
    redlatch_client_free(client);
}
