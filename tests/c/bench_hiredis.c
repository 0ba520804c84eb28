/*
 * The bare scripts through hiredis, steered by lines on standard input: bench_hiredis PORT OWNER COUNT ARGUMENTS...
 *
 * The first COUNT of the arguments are the command that acquires, the others are the one that releases. Where one ends with
 * a percent sign, the token of the pair stands there.
 *
 * pair COUNT    answers "took" and the time of each uncontended pair of acquire and release
 */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <hiredis/hiredis.h>
#include <sys/random.h>

#include "bench_times.h"

enum { MOST_ARGUMENTS = 32, ID = 36 };

struct command {
    int count;
    char *arguments[MOST_ARGUMENTS];
    size_t lengths[MOST_ARGUMENTS];
    /* Where the id of a token goes in an argument; NULL where there is none. */
    char *ids[MOST_ARGUMENTS];
};

static struct command command_of(char **arguments, int count, const char *owner) {
    struct command command = {0};
    int at;
    CHECK(count <= MOST_ARGUMENTS);
    command.count = count;
    for (at = 0; at < count; at++) {
        size_t length = strlen(arguments[at]), size = length + ID + strlen(owner) + 2;
        char *text = malloc(size);
        CHECK(text != NULL);
        memcpy(text, arguments[at], length + 1);
        if (length > 0 && text[length - 1] == '%') {
            command.ids[at] = text + length - 1;
            snprintf(command.ids[at], size - length, "%*s@%s", ID, "", owner);
        }
        command.arguments[at] = text;
        command.lengths[at] = strlen(text);
    }
    return command;
}

/* A version 4 UUID, as the library makes one for each token. */
static void new_id(char *id) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    int at;
    CHECK(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    for (at = 0; at < 16; at++) {
        if (at == 4 || at == 6 || at == 8 || at == 10)
            *id++ = '-';
        *id++ = digits[bytes[at] >> 4];
        *id++ = digits[bytes[at] & 0x0f];
    }
}

static void run(redisContext *context, struct command *command, const char *id) {
    redisReply *reply;
    int at;
    for (at = 0; at < command->count; at++) {
        if (command->ids[at] != NULL)
            memcpy(command->ids[at], id, ID);
    }
    reply = redisCommandArgv(context, command->count, (const char **)command->arguments, command->lengths);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0);
    CHECK(reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer == 1);
    freeReplyObject(reply);
}

int main(int argc, char **argv) {
    static int64_t took[MOST_TIMES];
    struct command acquire, release;
    redisContext *context;
    char line[64], id[ID];
    int at, count, arguments = 0;
    CHECK(argc > 4 && (arguments = atoi(argv[3])) > 0 && 4 + arguments < argc);
    acquire = command_of(argv + 4, arguments, argv[2]);
    release = command_of(argv + 4 + arguments, argc - 4 - arguments, argv[2]);
    context = redisConnect("127.0.0.1", atoi(argv[1]));
    CHECK(context != NULL && context->err == 0);
    say("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        CHECK(sscanf(line, "pair %d", &count) == 1 && count <= MOST_TIMES);
        for (at = 0; at < count; at++) {
            int64_t begin = now();
            new_id(id);
            run(context, &acquire, id);
            run(context, &release, id);
            took[at] = now() - begin;
        }
        say_times(took, count);
    }
    return 0;
}
