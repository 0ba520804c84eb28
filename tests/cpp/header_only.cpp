// The header by itself, before any other, with its templates used.
#include <redlatch.hpp>
#include <redlatch.hpp>

bool use(const redlatch::client& client, redlatch::mutex& lock, redlatch::lease& lease);

bool use(const redlatch::client& client, redlatch::mutex& lock, redlatch::lease& lease) {
    const redlatch::cancel_token cancel;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    return lock.try_lock_for(std::chrono::duration<float>(0.5F)) || lock.try_lock_until(soon, cancel) ||
           lease.try_acquire_for(std::chrono::nanoseconds(1), cancel) || lease.try_acquire_until(soon) ||
           client.adopt("name", "token").has_value();
}
