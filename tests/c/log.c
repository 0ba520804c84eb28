/* The log callback. */
#include "support.h"

struct heard {
    struct counter records, warnings, below;
    char last[512];
    char target[64];
    int32_t min_level;
};

#define HEARD_INIT {COUNTER_INIT, COUNTER_INIT, COUNTER_INIT, "", "", 0}

static void hear(int32_t level, const char *target, size_t target_len, const char *message, size_t message_len,
                 void *user_data) {
    struct heard *heard = user_data;
    CHECK(strlen(target) == target_len && strlen(message) == message_len);
    CHECK(level >= REDLATCH_LOG_DEBUG && level <= REDLATCH_LOG_ERROR);
    if (level < heard->min_level)
        count_up(&heard->below);
    if (level == REDLATCH_LOG_WARN) {
        snprintf(heard->last, sizeof heard->last, "%s", message);
        snprintf(heard->target, sizeof heard->target, "%s", target);
        count_up(&heard->warnings);
    }
    count_up(&heard->records);
}

/* Forcing a lock open is logged as a warning. */
static void warn(redlatch_client *client) {
    redlatch_lease *lease = new_lease(client, "log");
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 0));
    EXPECT(REDLATCH_OK, redlatch_force_release(client, TEXT("log")));
    EXPECT(REDLATCH_LOST, redlatch_lease_release(lease));
    redlatch_lease_free(lease);
}

/* Stays in the callback until it is let go. */
struct staying {
    struct counter entered, go, replaced;
};

static void stay(int32_t level, const char *target, size_t target_len, const char *message, size_t message_len,
                 void *user_data) {
    struct staying *staying = user_data;
    (void)level, (void)target, (void)target_len, (void)message, (void)message_len;
    count_up(&staying->entered);
    await_count(&staying->go, 1, "lets the callback go");
    CHECK(count_of(&staying->replaced) == 0);
}

static void *log_one(void *data) {
    (void)data;
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_ERROR, TEXT("one")));
    return NULL;
}

static void *end_log(void *data) {
    EXPECT(REDLATCH_OK, redlatch_set_log(NULL, NULL, 0));
    count_up(&((struct staying *)data)->replaced);
    return NULL;
}

/* Whoever replaces a callback waits for the thread that is in it, and for none that comes later. */
static void replace_while_inside(void) {
    struct staying staying = {COUNTER_INIT, COUNTER_INIT, COUNTER_INIT};
    pthread_t logging, ending;
    EXPECT(REDLATCH_OK, redlatch_set_log(stay, &staying, REDLATCH_LOG_ERROR));
    logging = start_thread(log_one, NULL);
    await_count(&staying.entered, 1, "threads in the callback");
    ending = start_thread(end_log, &staying);
    pause_ms(50);
    CHECK(count_of(&staying.replaced) == 0);
    count_up(&staying.go);
    join_thread(logging);
    join_thread(ending);
    on_thread(log_one, NULL);
    CHECK(count_of(&staying.entered) == 1);
}

struct noise {
    redlatch_client *client;
    volatile bool *over;
};

static void *make_noise(void *data) {
    struct noise *noise = data;
    while (!*noise->over)
        warn(noise->client);
    return NULL;
}

void scenario_log(char **args) {
    struct heard first = HEARD_INIT, second = HEARD_INIT, third = HEARD_INIT;
    redlatch_client *client = open_client(args[0]), *noisy;
    volatile bool over = false;
    struct noise noise;
    pthread_t thread;
    long before;
    int round;
    EXPECT(REDLATCH_OK, redlatch_set_log(NULL, NULL, 0));
    warn(client);
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_set_log(hear, &first, 0));
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_set_log(hear, &first, 5));
    first.min_level = REDLATCH_LOG_WARN;
    EXPECT(REDLATCH_OK, redlatch_set_log(hear, &first, REDLATCH_LOG_WARN));
    warn(client);
    CHECK(count_of(&first.warnings) > 0 && count_of(&first.below) == 0);
    CHECK(strstr(first.last, "log") != NULL && strncmp(first.target, "redlatch", 8) == 0);
    /* Replaced, the first hears nothing more; errors only. */
    before = count_of(&first.records);
    second.min_level = REDLATCH_LOG_ERROR;
    EXPECT(REDLATCH_OK, redlatch_set_log(hear, &second, REDLATCH_LOG_ERROR));
    warn(client);
    CHECK(count_of(&first.records) == before && count_of(&second.warnings) == 0 && count_of(&second.below) == 0);
    before = count_of(&second.records);
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_WARN, TEXT("not heard")));
    CHECK(count_of(&second.records) == before);
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_ERROR, TEXT("heard")));
    CHECK(count_of(&second.records) == before + 1);
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_log(REDLATCH_LOG_ERROR, NULL, 0));
    EXPECT(REDLATCH_INVALID_ARGUMENT, redlatch_log(0, TEXT("level")));
    second.min_level = REDLATCH_LOG_DEBUG;
    EXPECT(REDLATCH_OK, redlatch_set_log(hear, &second, REDLATCH_LOG_DEBUG));
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_WARN, TEXT("words of the program's")));
    CHECK(strcmp(second.last, "words of the program's") == 0 && strcmp(second.target, "redlatch::program") == 0);
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_INFO, TEXT("i")));
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_DEBUG, TEXT("d")));
    CHECK(count_of(&second.records) == before + 4);
    EXPECT(REDLATCH_OK, redlatch_set_log(NULL, NULL, 0));
    EXPECT(REDLATCH_OK, redlatch_log(REDLATCH_LOG_ERROR, TEXT("to nobody")));
    before = count_of(&second.records);
    warn(client);
    CHECK(count_of(&second.records) == before);
    replace_while_inside();
    /* Replaced and removed while another thread logs: data may go as soon as the call returns. */
    noisy = open_client("memory://");
    noise.client = noisy;
    noise.over = &over;
    thread = start_thread(make_noise, &noise);
    for (round = 0; round < 200; round++) {
        struct heard *brief = malloc(sizeof *brief);
        *brief = third;
        EXPECT(REDLATCH_OK, redlatch_set_log(hear, brief, REDLATCH_LOG_DEBUG));
        if (round % 20 == 0)
            pause_ms(2);
        EXPECT(REDLATCH_OK, redlatch_set_log(NULL, NULL, 0));
        memset(brief, 0xAA, sizeof *brief);
        free(brief);
    }
    over = true;
    join_thread(thread);
    redlatch_client_free(noisy);
    redlatch_client_free(client);
}
