// Each option reaches the library, and what is not set is the library's default.
#include "support.hpp"

namespace {

bool has(const char* text, std::size_t length, const char* wanted) {
    return text != nullptr && std::string(text, length) == wanted;
}

void defaults() {
    redlatch_client_options c, d;
    CHECK(redlatch_client_options_init(&d, sizeof d) == REDLATCH_OK);
    c = redlatch::detail::lowered(redlatch::client_options());
    CHECK(c.size == d.size && c.key_prefix == d.key_prefix && c.label == d.label && c.tls_ca == d.tls_ca);
    CHECK(c.tls_cert == d.tls_cert && c.tls_key == d.tls_key && c.connect_timeout_ms == d.connect_timeout_ms);
    CHECK(c.io_timeout_ms == d.io_timeout_ms && c.pool_timeout_ms == d.pool_timeout_ms && c.turn_ms == d.turn_ms);
    CHECK(c.unavailable_after_ms == d.unavailable_after_ms && c.fence_retention_ms == d.fence_retention_ms);
    CHECK(c.replica_timeout_ms == d.replica_timeout_ms && c.min_replicas == d.min_replicas);
    CHECK(c.pool_size == d.pool_size && c.renewal_threads == d.renewal_threads && c.reserved == d.reserved);
    CHECK(d.connect_timeout_ms != 0 && d.pool_size != 0);

    redlatch_lock_options e, f;
    CHECK(redlatch_lock_options_init(&f, sizeof f) == REDLATCH_OK);
    e = redlatch::detail::lowered(redlatch::lock_options());
    CHECK(e.size == f.size && e.ttl_ms == f.ttl_ms && e.max_hold_ms == f.max_hold_ms && e.auto_renew == f.auto_renew);
    CHECK(f.ttl_ms != 0 && f.auto_renew == 1);
}

void each_one() {
    redlatch::client_options options;
    options.key_prefix = "prefix:", options.label = "label", options.tls_ca = "ca";
    options.tls_cert = "cert", options.tls_key = "key";
    options.connect_timeout = 1s, options.io_timeout = 2s, options.pool_timeout = 3s, options.unavailable_after = 4s;
    options.fence_retention = 1h, options.turn = 6s, options.replica_timeout = 7ms;
    options.min_replicas = 8U, options.pool_size = 9U, options.renewal_threads = 10U;
    const redlatch_client_options c = redlatch::detail::lowered(options);
    CHECK(has(c.key_prefix, c.key_prefix_len, "prefix:") && has(c.label, c.label_len, "label"));
    CHECK(has(c.tls_ca, c.tls_ca_len, "ca") && has(c.tls_cert, c.tls_cert_len, "cert"));
    CHECK(has(c.tls_key, c.tls_key_len, "key"));
    CHECK(c.connect_timeout_ms == 1000 && c.io_timeout_ms == 2000 && c.pool_timeout_ms == 3000);
    CHECK(c.unavailable_after_ms == 4000 && c.fence_retention_ms == 3'600'000 && c.turn_ms == 6000);
    CHECK(c.replica_timeout_ms == 7 && c.min_replicas == 8 && c.pool_size == 9 && c.renewal_threads == 10);

    redlatch::lock_options lock;
    lock.ttl = 1s, lock.max_hold = 1h, lock.auto_renew = false;
    redlatch_lock_options l = redlatch::detail::lowered(lock);
    CHECK(l.ttl_ms == 1000 && l.max_hold_ms == 3'600'000 && l.auto_renew == 0);
    lock.auto_renew = true;
    CHECK(redlatch::detail::lowered(lock).auto_renew == 1);
}

// An empty text is set, unlike one that is not: no prefix at all.
void an_empty_prefix(const std::string& url) {
    redlatch::client_options options;
    options.key_prefix = "";
    const redlatch::client bare(url, options);
    const redlatch::client usual(url);
    redlatch::mutex lock(bare, "lock:prefixed");
    lock.lock();
    CHECK(usual.inspect("prefixed").has_value());
    lock.unlock();
    options.label = "";
    THROWN(config_error, redlatch::client(url, options));
}

void max_hold_ends_a_lease(const std::string& url) {
    const redlatch::client client(url);
    redlatch::lock_options options;
    options.ttl = options.max_hold = 300ms;
    redlatch::mutex lock(client, "max hold", options);
    lock.lock();
    eventually("max_hold", [&] { return lock.lost() == redlatch::lost_reason::max_hold; });
    CHECK(THROWN(lost_error, static_cast<void>(lock.release())).reason() == redlatch::lost_reason::max_hold);
}

}  // namespace

void options(const std::string& url) {
    defaults();
    each_one();
    an_empty_prefix(url);
    max_hold_ends_a_lease(url);
}
