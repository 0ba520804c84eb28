/* redlatch_check_server. */
#include "support.h"

struct told {
    int findings;
    int32_t last;
    char kind[64];
    redlatch_client *client;
};

/* Counts, and says each finding as one line: severity, kind and server. */
static void tell(int32_t severity, const char *kind, size_t kind_len, const char *server, size_t server_len,
                 const char *message, size_t message_len, void *user_data) {
    struct told *told = user_data;
    char line[512];
    CHECK(strlen(kind) == kind_len && strlen(server) == server_len && strlen(message) == message_len);
    CHECK(kind_len > 0 && kind_len < sizeof told->kind && server_len > 0 && message_len > 0);
    CHECK(severity >= REDLATCH_SEVERITY_INFO && severity <= told->last);
    told->last = severity;
    told->findings++;
    strcpy(told->kind, kind);
    snprintf(line, sizeof line, "%d %s %s", (int)severity, kind, server);
    say(line);
    if (told->client != NULL) {
        /* A callback may use the library. */
        char *json = NULL;
        EXPECT(REDLATCH_OK, redlatch_client_stats_json(told->client, &json));
        redlatch_string_free(json);
    }
}

static struct told nothing(redlatch_client *client) {
    struct told told = {0, REDLATCH_SEVERITY_PROBLEM, "", NULL};
    told.client = client;
    return told;
}

/* Says what is found at the URL; the test compares it with what the core finds. */
void scenario_check(char **args) {
    redlatch_client *client = open_client(args[0]);
    struct told told = nothing(client);
    int32_t worst = 7, again = 7;
    EXPECT(REDLATCH_OK, redlatch_check_server(client, tell, &told, &worst));
    CHECK(told.findings > 0 && worst >= told.last);
    EXPECT(REDLATCH_OK, redlatch_check_server(client, NULL, NULL, &again));
    CHECK(again == worst);
    told = nothing(NULL);
    EXPECT(REDLATCH_OK, redlatch_check_server(client, NULL, NULL, NULL));
    CHECK(told.findings == 0);
    EXPECT(REDLATCH_OK, redlatch_client_close(client));
    EXPECT(REDLATCH_CLOSED, redlatch_check_server(client, tell, &told, &worst));
    CHECK(told.findings == 0 && worst == again);
    CHECK(error_says("closed"));
    redlatch_client_free(client);
}

/* A URL at which nothing can be checked, and the name of the status. */
void scenario_unchecked(char **args) {
    redlatch_client *client = open_client(args[0]);
    struct told told = nothing(NULL);
    int32_t worst = 7;
    int32_t status = redlatch_check_server(client, tell, &told, &worst);
    if (strcmp(redlatch_status_name(status), args[1]) != 0) {
        fprintf(stderr, "%s instead of %s\n", redlatch_status_name(status), args[1]);
        exit(1);
    }
    CHECK(told.findings == 0 && worst == 7);
    CHECK(error_says("cannot check the server"));
    CHECK(!error_says("hunter2"));
    redlatch_client_free(client);
}
