// Faults that a checker must find, in a program that uses the library: deliberate none|leak|use-after-free|overflow
#include <redlatch.hpp>

#include <cstdio>
#include <limits>

int main(int argc, char** argv) {
    const std::string fault = argc > 1 ? argv[1] : "";
    const redlatch::client client("memory://");
    if (fault == "leak") {
        // Nothing points to it any more.
        auto* volatile lost = new redlatch::mutex(client, "lost");
        lost = nullptr;
        static_cast<void>(lost);
    } else if (fault == "use-after-free") {
        auto* volatile freed = new redlatch::lease(client, "freed");
        delete freed;
        std::printf("%p\n", static_cast<void*>(freed->native_handle()));
    } else if (fault == "overflow") {
        volatile int most = std::numeric_limits<int>::max();
        most = most + 1;
    }
    return 0;
}
