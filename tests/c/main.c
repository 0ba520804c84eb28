/* Runs scenarios: main SCENARIO[,SCENARIO...] ARGUMENT... */
#include "support.h"

static const struct {
    const char *name;
    void (*run)(char **args);
} scenarios[] = {
    {"arguments", scenario_arguments}, {"options", scenario_options},     {"lock", scenario_lock},
    {"threads", scenario_threads},     {"names", scenario_names},         {"order", scenario_order},
    {"operator", scenario_operator},   {"stats", scenario_stats},         {"lease", scenario_lease},
    {"give", scenario_give},           {"take", scenario_take},           {"callbacks", scenario_callbacks},
    {"destroy", scenario_destroy},     {"cancel", scenario_cancel},       {"log", scenario_log},
    {"fork", scenario_fork},           {"losses", scenario_losses},       {"refused", scenario_refused},
    {"outage", scenario_outage},       {"counter", scenario_counter},       {"forks", scenario_forks},
    {"check", scenario_check},         {"unchecked", scenario_unchecked},   {"cut_off", scenario_cut_off},
    {"reopen", scenario_reopen},
};

int main(int argc, char **argv) {
    char *name;
    if (argc < 2)
        return 2;
    for (name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
        size_t at, known = sizeof scenarios / sizeof *scenarios;
        for (at = 0; at < known && strcmp(scenarios[at].name, name) != 0; at++)
            continue;
        if (at == known) {
            fprintf(stderr, "no scenario %s\n", name);
            return 2;
        }
        scenarios[at].run(argv + 2);
    }
    return 0;
}
