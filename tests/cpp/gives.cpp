// Acquires a lease, hands it over, and prints its token: gives URL NAME
#include <redlatch.hpp>

#include <cstdio>

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const redlatch::client client(argv[1]);
    redlatch::lease lease(client, argv[2]);
    lease.acquire();
    std::puts(lease.into_token().c_str());
    return 0;
}
