// Runs scenarios: main NAME,NAME,… URL [ARGUMENT]
#include "support.hpp"

#include <map>
#include <sstream>

int main(int argc, char** argv) {
    const std::map<std::string, void (*)(const std::string&)> scenarios{
        {"mutexes", mutexes},
        {"guards", guards},
        {"counter", counter},
        {"operators", operators},
        {"leases", leases},
        {"waits", waits},
        {"cancels", cancels},
        {"errors", errors},
        {"options", options},
        {"callbacks", callbacks},
        {"logs", logs},
        {"lifetimes", lifetimes},
        {"outage", outage},
        {"checks", checks},
    };
    if (argc < 3) return 2;
    const std::string url = argv[2];
    std::istringstream names(argv[1]);
    for (std::string name; std::getline(names, name, ',');) {
        if (name == "refused") {
            if (argc != 4) return 2;
            refused(url, argv[3]);
            continue;
        }
        const auto found = scenarios.find(name);
        if (found == scenarios.end()) {
            std::fprintf(stderr, "unknown scenario %s\n", name.c_str());
            return 2;
        }
        try {
            found->second(url);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
            return 1;
        }
    }
    return 0;
}
