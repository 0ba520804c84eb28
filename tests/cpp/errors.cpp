// Every exception class, its code, and when it comes.
#include "support.hpp"

#include <map>
#include <memory>
#include <type_traits>

namespace {

using redlatch::errc;

static_assert(std::is_base_of_v<std::system_error, redlatch::error>);
static_assert(std::is_nothrow_copy_constructible_v<redlatch::lost_error>, "exceptions are copied while they fly");
static_assert(std::is_error_code_enum_v<errc>);

// The class that a status of redlatch.h throws, caught by its base.
template <class Error>
void is_thrown_for(std::int32_t status, errc code, bool retryable) {
    try {
        redlatch::detail::fail(status);
    } catch (const redlatch::error& error) {
        CHECK(dynamic_cast<const Error*>(&error) != nullptr);
        CHECK(error.status() == code && error.code() == code && static_cast<std::int32_t>(code) == status);
        CHECK(error.code().category() == redlatch::category() && error.is_retryable() == retryable);
        CHECK(std::string(error.what()).find(redlatch::category().message(status)) != std::string::npos);
        return;
    }
    CHECK(!"it throws a redlatch::error");
}

void classes() {
    is_thrown_for<redlatch::cancelled_error>(REDLATCH_CANCELLED, errc::cancelled, false);
    is_thrown_for<redlatch::invalid_argument_error>(REDLATCH_INVALID_ARGUMENT, errc::invalid_argument, false);
    is_thrown_for<redlatch::config_error>(REDLATCH_CONFIG, errc::config, false);
    is_thrown_for<redlatch::lost_error>(REDLATCH_LOST, errc::lost, true);
    is_thrown_for<redlatch::not_held_error>(REDLATCH_NOT_HELD, errc::not_held, false);
    is_thrown_for<redlatch::unavailable_error>(REDLATCH_UNAVAILABLE, errc::unavailable, true);
    is_thrown_for<redlatch::authentication_error>(REDLATCH_AUTHENTICATION, errc::authentication, false);
    is_thrown_for<redlatch::permission_error>(REDLATCH_PERMISSION, errc::permission, false);
    is_thrown_for<redlatch::key_type_error>(REDLATCH_KEY_TYPE, errc::key_type, false);
    is_thrown_for<redlatch::incompatible_error>(REDLATCH_INCOMPATIBLE, errc::incompatible, false);
    is_thrown_for<redlatch::closed_error>(REDLATCH_CLOSED, errc::closed, false);
    is_thrown_for<redlatch::not_replicated_error>(REDLATCH_NOT_REPLICATED, errc::not_replicated, true);
    is_thrown_for<redlatch::in_use_error>(REDLATCH_IN_USE, errc::in_use, false);
    is_thrown_for<redlatch::internal_error>(REDLATCH_INTERNAL, errc::internal, false);
    // Of a later library: an error, though not one of the classes.
    is_thrown_for<redlatch::error>(-98, static_cast<errc>(-98), false);
    try {
        redlatch::detail::fail(77);
    } catch (const redlatch::internal_error&) {
    }
}

void conditions() {
    const std::map<errc, std::errc> portable{
        {errc::cancelled, std::errc::operation_canceled},    {errc::invalid_argument, std::errc::invalid_argument},
        {errc::config, std::errc::invalid_argument},         {errc::not_held, std::errc::operation_not_permitted},
        {errc::unavailable, std::errc::host_unreachable},    {errc::authentication, std::errc::permission_denied},
        {errc::permission, std::errc::permission_denied},    {errc::incompatible, std::errc::not_supported},
        {errc::in_use, std::errc::device_or_resource_busy},
    };
    for (const auto& [code, condition] : portable) {
        const std::error_code as_code = code;
        CHECK(as_code == condition && as_code != std::errc::io_error);
    }
    for (const errc code : {errc::lost, errc::key_type, errc::closed, errc::not_replicated, errc::internal})
        CHECK(std::error_code(code).default_error_condition().category() == redlatch::category());
    CHECK(redlatch::category().name() == std::string("redlatch"));
    CHECK(redlatch::category().message(-98) == "unknown status");
}

void refusals(const std::string& url) {
    THROWN(config_error, redlatch::client("no url"));
    const auto url_error = THROWN(config_error, redlatch::client("http://:hunter2@host/"));
    CHECK(std::string(url_error.what()).find("hunter2") == std::string::npos);
    THROWN(config_error, redlatch::client(std::string_view()));
    THROWN(invalid_argument_error, redlatch::client("redis://\xff"));

    const redlatch::client client(url);
    THROWN(config_error, redlatch::mutex(client, ""));
    THROWN(config_error, redlatch::mutex(client, std::string_view()));
    THROWN(config_error, redlatch::lease(client, std::string_view()));
    THROWN(config_error, redlatch::mutex(client, std::string(1025, 'x')));
    THROWN(config_error, redlatch::mutex(client, "a:redlatch:b"));
    THROWN(invalid_argument_error, redlatch::mutex(client, "\xc3"));
    const auto ttl = THROWN(config_error, redlatch::mutex(client, "x", {1ms}));
    CHECK(std::string(ttl.what()).find("ttl") != std::string::npos);
    THROWN(config_error, redlatch::lease(client, "x", {std::chrono::milliseconds(-5)}));
    THROWN(config_error, static_cast<void>(client.inspect("")));
    THROWN(config_error, static_cast<void>(client.force_release("")));
    THROWN(config_error, static_cast<void>(client.adopt("x", "")));
}

void closed(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex held(client, "closed"), other(client, "closed too");
    redlatch::lease lease(client, "closed lease");
    held.lock();
    lease.acquire();
    client.close();
    THROWN(closed_error, other.lock());
    THROWN(closed_error, static_cast<void>(other.try_lock_for(1s)));
    THROWN(closed_error, static_cast<void>(client.inspect("closed")));
    CHECK(held.lost() == redlatch::lost_reason::closed && lease.lost() == redlatch::lost_reason::closed);
    CHECK(THROWN(lost_error, held.check()).reason() == redlatch::lost_reason::closed);
    THROWN(lost_error, static_cast<void>(held.release()));
    THROWN(lost_error, static_cast<void>(lease.release()));
    const redlatch::client operator_client(url);
    CHECK(operator_client.force_release("closed") && operator_client.force_release("closed lease"));
}

void reasons() {
    using redlatch::lost_reason;
    CHECK(to_string(lost_reason::expired) == "expired" && to_string(lost_reason::taken) == "taken");
    CHECK(to_string(lost_reason::max_hold) == "max_hold" && to_string(lost_reason::forked) == "forked");
    CHECK(to_string(lost_reason::closed) == "closed" && to_string(lost_reason::internal) == "internal");
    CHECK(to_string(static_cast<lost_reason>(77)) == "unknown");
    CHECK(redlatch::version() == REDLATCH_VERSION);
}

}  // namespace

void errors(const std::string& url) {
    classes();
    conditions();
    refusals(url);
    closed(url);
    reasons();
}

void refused(const std::string& url, const std::string& wanted) {
    redlatch::client_options options;
    options.connect_timeout = options.io_timeout = options.unavailable_after = 300ms;
    if (wanted == "not_replicated_error") options.min_replicas = 1;
    const redlatch::client client(url, options);
    redlatch::mutex lock(client, "refused");
    redlatch::lease lease(client, "refused");
    const std::map<std::string, std::function<void(const std::function<void()>&)>> classes{
        {"authentication_error", [](auto& work) { THROWN(authentication_error, work()); }},
        {"permission_error", [](auto& work) { THROWN(permission_error, work()); }},
        {"key_type_error", [](auto& work) { THROWN(key_type_error, work()); }},
        {"incompatible_error", [](auto& work) { THROWN(incompatible_error, work()); }},
        {"unavailable_error", [](auto& work) { THROWN(unavailable_error, work()); }},
        {"not_replicated_error", [](auto& work) { THROWN(not_replicated_error, work()); }},
    };
    const auto& is_thrown = classes.at(wanted);
    is_thrown([&] { lock.lock(); });
    is_thrown([&] { static_cast<void>(lock.try_lock()); });
    is_thrown([&] { static_cast<void>(lock.try_lock_for(200ms)); });
    is_thrown([&] { static_cast<void>(lock.try_lock_until(std::chrono::steady_clock::now() + 200ms)); });
    is_thrown([&] { lease.acquire(); });
    // Guards pass it on, and own nothing.
    is_thrown([&] { const std::lock_guard guard(lock); });
    is_thrown([&] { const std::unique_lock guard(lock, std::try_to_lock); });
    redlatch::mutex another(client, "refused too");
    is_thrown([&] { const std::scoped_lock guard(another, lock, another); });
    CHECK(lock.hold_count() == 0 && !lease.is_held());
}

void outage(const std::string& url) {
    redlatch::client_options options;
    options.connect_timeout = options.io_timeout = 300ms;
    const redlatch::client client(url, options);
    redlatch::mutex lock(client, "outage");
    redlatch::lease lease(client, "outage lease");
    log_capture log;
    lock.lock();
    lease.acquire();
    std::puts("held");
    std::fflush(stdout);
    CHECK(std::getchar() != EOF);
    THROWN(unavailable_error, lock.renew());
    CHECK(lock.is_held());
    CHECK(lock.release() == redlatch::released::unconfirmed);
    CHECK(lease.release() == redlatch::released::unconfirmed);
    THROWN(unavailable_error, static_cast<void>(lock.try_lock_for(100ms)));
    std::puts("stopped");
    std::fflush(stdout);
    CHECK(std::getchar() != EOF);
    eventually("the background releases", [&] { return !client.inspect("outage") && !client.inspect("outage lease"); });
}
