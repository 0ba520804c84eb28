// What the scenarios share: checks that end the program, and other holders of a lock.
#ifndef SUPPORT_HPP
#define SUPPORT_HPP

#include <redlatch.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <typeinfo>

using namespace std::chrono_literals;

#define CHECK(condition) ((condition) ? static_cast<void>(0) : check_failed(#condition, __FILE__, __LINE__))

// The exception that `statement` throws, which must be exactly a redlatch::`type`.
#define THROWN(type, statement) thrown<redlatch::type>([&] { statement; }, #type ": " #statement, __FILE__, __LINE__)

[[noreturn]] inline void check_failed(const std::string& what, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
    // Not exit(): other threads may still be at work.
    std::_Exit(1);
}

template <class Error>
Error thrown(const std::function<void()>& work, const char* what, const char* file, int line) {
    try {
        work();
    } catch (const Error& error) {
        return error;
    } catch (const std::exception& error) {
        check_failed(std::string(what) + " threw: " + error.what(), file, line);
    }
    check_failed(std::string(what) + " threw nothing", file, line);
}

// Runs `work` on a thread of its own, to its end.
inline void elsewhere(const std::function<void()>& work) { std::thread(work).join(); }

// Polls `holds` every 5 ms, for 10 s.
inline void eventually(const char* what, const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) check_failed(std::string("not within 10 s: ") + what, "", 0);
        std::this_thread::sleep_for(5ms);
    }
}

// How long `work` takes.
template <class Work>
std::chrono::steady_clock::duration time_of(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - begin;
}

// Whether anybody has the lock, asked through a client of its own.
inline bool is_locked(const std::string& url, const std::string& name) {
    return redlatch::client(url).inspect(name).has_value();
}

// Collects the log while it lives.
class log_capture {
public:
    log_capture() {
        redlatch::set_log([this](redlatch::log_level level, std::string_view target, std::string_view message) {
            const std::lock_guard guard(mutex_);
            text_.append(std::to_string(static_cast<int>(level))).append(" ").append(target).append(": ");
            text_.append(message).append("\n");
        });
    }
    ~log_capture() { redlatch::set_log(nullptr); }
    log_capture(const log_capture&) = delete;
    log_capture& operator=(const log_capture&) = delete;

    [[nodiscard]] std::string text() {
        const std::lock_guard guard(mutex_);
        return text_;
    }
    [[nodiscard]] bool has(const std::string& part) { return text().find(part) != std::string::npos; }

private:
    std::mutex mutex_;
    std::string text_;
};

// A lock that a thread holds from the constructor to let_go(), as another process would.
class other_holder {
public:
    other_holder(const std::string& url, const std::string& name) {
        thread_ = std::thread([this, url, name] {
            const redlatch::client client(url);
            redlatch::mutex lock(client, name);
            lock.lock();
            std::unique_lock guard(mutex_);
            held_ = true;
            changed_.notify_all();
            changed_.wait(guard, [this] { return go_; });
            static_cast<void>(lock.release());
        });
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [this] { return held_; });
    }
    ~other_holder() { let_go(); }
    other_holder(const other_holder&) = delete;
    other_holder& operator=(const other_holder&) = delete;

    void let_go() {
        {
            const std::lock_guard guard(mutex_);
            go_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool held_ = false;
    bool go_ = false;
    std::thread thread_;
};

// The scenarios; each takes a URL of a server without locks.
void mutexes(const std::string& url);
void guards(const std::string& url);
void counter(const std::string& url);
void operators(const std::string& url);
void leases(const std::string& url);
void waits(const std::string& url);
void cancels(const std::string& url);
void errors(const std::string& url);
void options(const std::string& url);
void callbacks(const std::string& url);
void logs(const std::string& url);
void lifetimes(const std::string& url);
// Ends with 0 where acquiring throws the class that it names.
void refused(const std::string& url, const std::string& wanted);
void outage(const std::string& url);
void checks(const std::string& url);

#endif
