// STATEMENT throws a result away that must not be lost.
#include <redlatch.hpp>

void discards(const redlatch::client& client, redlatch::mutex& lock, redlatch::lease& lease) {
    static_cast<void>(client.native_handle()), static_cast<void>(lock.name()), static_cast<void>(lease.native_handle());
    STATEMENT;
}
