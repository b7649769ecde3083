// How actors are spawned and watched, and how they send and handle messages, on CAF 0.17 and 1.x, and what
// ThreadSanitizer must be told about CAF. Without ThreadSanitizer that does nothing.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace mailgrad {

/// "workers 0, 2" for the numbers 0 and 2, "worker 2" for one; "" for no number.
inline std::string listed(std::string_view noun, std::span<const std::uint32_t> numbers) {
  std::string text;
  for (const std::uint32_t n : numbers)
    text += text.empty() ? fmt::format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", n)
                         : fmt::format(", {}", n);
  return text;
}

/// The numbers below `count` for which it holds.
template <class Predicate>
std::vector<std::uint32_t> numbers_where(std::size_t count, const Predicate& holds) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t n = 0; n < count; ++n)
    if (holds(n)) all.push_back(n);
  return all;
}

/// "worker 0 (heard 0.2 s ago), 2 (not heard yet)", where `heard` gives the time of the last message of each.
template <class Heard>
std::string listed_with_last_words(std::string_view noun, std::span<const std::uint32_t> numbers, instant now,
                                   const Heard& heard) {
  std::string text;
  for (const std::uint32_t n : numbers) {
    const std::optional<instant> at = heard(n);
    text += text.empty() ? std::string(noun) + ' ' : ", ";
    text += at ? fmt::format("{} (heard {:.1f} s ago)", n, in_seconds(now - *at))
               : fmt::format("{} (not heard yet)", n);
  }
  return text;
}

/// What ThreadSanitizer cannot see by itself. CAF 0.17 is compiled without instrumentation, but its templates
/// are compiled here, so ThreadSanitizer sees one half of each hand-over. Two things are therefore annotated:
///   - everything done before a message is sent happens before it is handled (release, acquire);
///   - a mailbox, a message on its way, an actor between two handlers, and the start and end of a system belong
///     to CAF (inside_caf).
/// Nothing that a handler does is silenced.
namespace tsan_annotations {
#ifdef __SANITIZE_THREAD__
/// Everything released under a tag happens before everything acquired under it later.
inline void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
inline void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
#else
inline void release(const void*) {}
inline void acquire(const void*) {}
#endif

#if defined(__SANITIZE_THREAD__) && CAF_MAJOR_VERSION < 1
/// While an object lives, what this thread reads belongs to CAF and is not checked.
struct inside_caf {
  inside_caf() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~inside_caf() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  inside_caf(const inside_caf&) = delete;
  inside_caf& operator=(const inside_caf&) = delete;
};
/// While an object lives, reads are checked again: CAF has called a handler of ours.
struct back_home {
  back_home() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  ~back_home() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  back_home(const back_home&) = delete;
  back_home& operator=(const back_home&) = delete;
};
#else
struct [[maybe_unused]] inside_caf {};
struct [[maybe_unused]] back_home {};
#endif

/// The identity of an actor's mailbox. All handles to the actor have the same.
inline const void* tag(const caf::actor& actor) { return caf::actor_cast<caf::abstract_actor*>(actor); }
inline const void* tag(const caf::abstract_actor* self) { return self; }
} // namespace tsan_annotations

} // namespace mailgrad

namespace mailgrad::messaging {

template <class Self, class Handle, class... Ts>
void send(Self&& self, const Handle& to, Ts&&... xs) {
  tsan_annotations::release(tsan_annotations::tag(to));
  const tsan_annotations::inside_caf hidden;
  if constexpr (caf_compat::is_caf_1)
    self->mail(std::forward<Ts>(xs)...).send(to);
  else
    self->send(to, std::forward<Ts>(xs)...);
}

/// Sends a message to `self` when so much time has passed.
template <class Self, class Message>
void send_after(Self* self, std::chrono::nanoseconds span, const Message& notice) {
  const tsan_annotations::inside_caf hidden;
  if constexpr (caf_compat::is_caf_1)
    self->mail(notice).delay(span).send(self);
  else
    self->delayed_send(self, span, notice);
}

/// Sends without a sender, from a thread that is not an actor's.
template <class Handle, class... Ts>
void send_anonymously(const Handle& to, Ts&&... xs) {
  tsan_annotations::release(tsan_annotations::tag(to));
  const tsan_annotations::inside_caf hidden;
#if CAF_MAJOR_VERSION >= 1
  caf::anon_mail(std::forward<Ts>(xs)...).send(to);
#else
  caf::anon_send(to, std::forward<Ts>(xs)...);
#endif
}

/// Hands a message to an actor as if `from` had sent it; null: nobody.
inline void send_as(const caf::actor& from, const caf::actor& to, caf::message m,
                    caf::message_id id = caf::make_message_id()) {
  tsan_annotations::release(tsan_annotations::tag(to));
  const tsan_annotations::inside_caf hidden;
  auto* receiver = caf::actor_cast<caf::abstract_actor*>(to);
  auto sender = caf::actor_cast<caf::strong_actor_ptr>(from);
#if CAF_MAJOR_VERSION >= 1
  receiver->enqueue(caf::make_mailbox_element(std::move(sender), id, std::move(m)), nullptr);
#else
  receiver->enqueue(std::move(sender), id, std::move(m), nullptr);
#endif
}

/// The message in an element of a mailbox.
inline caf::message content_of(const caf::mailbox_element& what) {
#if CAF_MAJOR_VERSION >= 1
  return what.payload;
#else
  return what.copy_content_to_message();
#endif
}

/// Ends an actor with these words as its reason, for whoever watches it.
inline void end_with_words(const caf::actor& whom, const std::string& words) {
  send_anonymously(whom, caf::exit_msg{whom->address(), caf::make_error(caf::sec::runtime_error, words)});
}
/// The same of the actor whose handler calls this.
inline void quit_with_words(caf::event_based_actor* self, const std::string& words) {
  self->quit(caf::make_error(caf::sec::runtime_error, words));
}

/// Ends an actor as a crash would: it handles no further message.
inline void kill(const caf::actor& whom) {
  tsan_annotations::release(tsan_annotations::tag(whom));
  const tsan_annotations::inside_caf hidden;
  caf::anon_send_exit(whom, caf::exit_reason::kill);
}

/// Waits until an actor has ended, on a thread that no actor needs. With CAF 1.x its state may be there for a
/// moment longer.
inline void wait_for_end(const caf::actor& whom) {
  const auto ended = std::make_shared<std::promise<void>>();
  whom->attach_functor([ended](const caf::error&) { ended->set_value(); });
  ended->get_future().get();
}

// CAF 1.x calls default handlers deprecated, in favour of a handler for any message.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// hold_others() keeps messages that the present behaviour does not handle until a behaviour does.
/// drop_others(), the initial state, drops them and prints a line. ignore_others() drops them without a word,
/// for actors that other processes reach: the line would have their text.
inline void hold_others(caf::event_based_actor* self) { self->set_default_handler(caf::skip); }
inline void drop_others(caf::event_based_actor* self) { self->set_default_handler(caf::print_and_drop); }
inline void ignore_others(caf::event_based_actor* self) { self->set_default_handler(caf::drop); }
#pragma GCC diagnostic pop

/// The sender of the message that is being handled; null if it has none.
inline caf::actor sender_of(caf::event_based_actor* self) {
  return caf::actor_cast<caf::actor>(self->current_sender());
}

/// An exception that leaves a handler of `self`, or the constructor of its state, ends the actor. An actor
/// that watches it learns what the exception said.
inline void keep_last_words(caf::event_based_actor* self) {
  self->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      return caf::make_error(caf::sec::runtime_error, std::string(e.what()));
    } catch (...) {
      return caf::make_error(caf::sec::runtime_error, std::string("an exception that says nothing"));
    }
  });
}

/// The text of the exception that ended an actor; empty if none did.
inline std::string last_words(const caf::error& end) {
  if (end != caf::sec::runtime_error) return {};
  const caf::message& said = end.context();
  return said.size() == 1 && said.match_element<std::string>(0) ? said.get_as<std::string>(0) : std::string();
}

/// Sends `notice` to `self` when `whom` ends. A member `why` of the notice gets the last words of `whom`.
template <class Self, class Handle, class Message>
void watch(Self* self, const Handle& whom, const Message& notice) {
  const auto told = [notice](const caf::error& end) {
    Message with_reason = notice;
    if constexpr (requires { with_reason.why; }) with_reason.why = last_words(end);
    return with_reason;
  };
  if constexpr (caf_compat::is_caf_1)
    self->monitor(whom, [self, told](const caf::error& end) { self->mail(told(end)).send(self); });
  else
    whom->attach_functor([observer = self->address(), told](const caf::error& end) {
      if (auto to = caf::actor_cast<caf::actor>(observer)) send_anonymously(to, told(end));
    });
}

/// The time of one handler of `self`, and of its answer to the sender.
class turn_of_handler {
public:
  turn_of_handler(caf::event_based_actor* self, bool answers) : self_(self), answers_(answers) {
    tsan_annotations::acquire(tsan_annotations::tag(self_));
  }
  ~turn_of_handler() {
    tsan_annotations::release(tsan_annotations::tag(self_));
    if (answers_) tsan_annotations::release(tsan_annotations::tag(sender_of(self_)));
  }
  turn_of_handler(const turn_of_handler&) = delete;
  turn_of_handler& operator=(const turn_of_handler&) = delete;

private:
  tsan_annotations::back_home home_;
  caf::event_based_actor* self_;
  bool answers_;
};

/// A handler of one message type: `on(self, [this](const push_gradient& x) { ... })`. Under ThreadSanitizer
/// it tells the hand-overs of the mailbox before and after `f`.
template <class F, class Class, class Result, class Message>
auto on([[maybe_unused]] caf::event_based_actor* self, F f, Result (Class::*)(Message) const) {
#ifdef __SANITIZE_THREAD__
  return [self, f = std::move(f)](const std::decay_t<Message>& x) -> Result {
    const turn_of_handler turn(self, !std::is_void_v<Result>);
    return f(x);
  };
#else
  return f;
#endif
}
template <class F>
auto on(caf::event_based_actor* self, F f) {
  return on(self, std::move(f), &F::operator());
}

/// The state of an actor, or a part of one: what it sends, watches and handles is the actor's, and nobody
/// else calls it.
class actor_part {
public:
  explicit actor_part(caf::event_based_actor* self) : self_(self) {}

protected:
  template <class Handle, class... Ts>
  void send(const Handle& to, Ts&&... xs) const {
    messaging::send(self_, to, std::forward<Ts>(xs)...);
  }
  template <class Message>
  void send_after(std::chrono::nanoseconds span, const Message& notice) const {
    messaging::send_after(self_, span, notice);
  }
  template <class Handle, class Message>
  void watch(const Handle& whom, const Message& notice) const {
    messaging::watch(self_, whom, notice);
  }
  template <class F>
  auto on(F f) const {
    return messaging::on(self_, std::move(f));
  }
  caf::actor sender() const { return sender_of(self_); }
  caf::actor myself() const { return caf::actor_cast<caf::actor>(self_); }

  caf::event_based_actor* self_;
};

/// An actor with a state that lives until the actor ends. The state is made when the actor is first
/// scheduled, so that an exception of its constructor ends the actor and not its spawner.
template <class State, class... Args>
class host_of final : public caf::event_based_actor {
public:
  template <class... Ts>
  explicit host_of(caf::actor_config& config, Ts&&... xs)
      : caf::event_based_actor(config), arguments_(std::in_place, std::forward<Ts>(xs)...) {
    tsan_annotations::release(tsan_annotations::tag(this));
  }

  const char* name() const override { return State::name; }

  caf::behavior make_behavior() override {
    keep_last_words(this);
    std::apply([this](Args&... xs) { state_.emplace(this, std::move(xs)...); }, *arguments_);
    arguments_.reset();
    return state_->make_behavior();
  }
  void on_exit() override { state_.reset(); }

#if defined(__SANITIZE_THREAD__) && CAF_MAJOR_VERSION < 1
  ~host_of() override { tsan_annotations::acquire(tsan_annotations::tag(this)); }
  resume_result resume(caf::execution_unit* unit, std::size_t most) override {
    const tsan_annotations::inside_caf hidden;
    return caf::event_based_actor::resume(unit, most);
  }
#endif

private:
  std::optional<std::tuple<Args...>> arguments_; ///< until the state is made
  std::optional<State> state_;
};

/// While it lives, its thread makes an actor system or spawns an actor. CAF then keeps the log of that system
/// for the thread, until the thread ends or enters another system. A thread that had another log before, or
/// none, forgets it when it leaves, for two reasons. The destructor of a system of CAF 0.17 waits until no
/// thread keeps its log. And a system in a global variable ends after the variables of the main thread: one
/// that the main thread still kept would be freed twice.
class visit {
public:
  visit() = default;
  ~visit() {
    if (caf::logger::current_logger() == before_) return;
#if CAF_MAJOR_VERSION >= 1
    caf::logger::current_logger(nullptr);
#else
    caf::logger::set_current_actor_system(nullptr);
#endif
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

private:
  tsan_annotations::inside_caf hidden_;
  const caf::logger* before_ = caf::logger::current_logger();
};

/// An actor system. Its destructor waits for our last actor and ends CAF's own servers.
class actor_home {
public:
  explicit actor_home(caf::actor_system_config& config) {
    const visit here;
    system_.emplace(config);
  }
  ~actor_home() {
#ifdef __SANITIZE_THREAD__
    // CAF's threads end by way of an object on this stack. ThreadSanitizer does not see that our functions
    // have returned before, so the object must not lie where their frames were.
    char untouched[1 << 18];
    asm volatile("" : : "r"(untouched) : "memory");
#endif
    end();
  }
  actor_home(const actor_home&) = delete;
  actor_home& operator=(const actor_home&) = delete;

  caf::actor_system& system() noexcept { return *system_; }

  /// Blocks until no actor lives.
  void wait() {
    const tsan_annotations::inside_caf hidden;
    system_->await_all_actors_done();
  }

private:
  [[gnu::noinline]] void end() {
    const tsan_annotations::inside_caf hidden;
    system_.reset();
  }

  std::optional<caf::actor_system> system_;
};

/// Spawns `State(self, xs...)` and installs what its `make_behavior()` returns.
template <class State, caf::spawn_options Os = caf::no_spawn_options, class Host, class... Ts>
caf::actor spawn(Host& host, Ts&&... xs) {
  const visit here;
  return host.template spawn<host_of<State, std::decay_t<Ts>...>, Os>(std::forward<Ts>(xs)...);
}

/// The option of an actor system in which every actor waits for its turn, also one that blocks.
inline const std::string one_thread_option = "mailgrad.one-thread";

inline bool is_on_one_thread(const caf::actor_system& system) {
  return caf::get_or(system.config(), one_thread_option, false);
}

/// The same for an actor that blocks, as on a disk: it gets a thread of its own, but in a system of one
/// thread.
template <class State, class... Ts>
caf::actor spawn_apart(caf::actor_system& system, Ts&&... xs) {
  return is_on_one_thread(system) ? spawn<State>(system, std::forward<Ts>(xs)...)
                                  : spawn<State, caf::detached>(system, std::forward<Ts>(xs)...);
}

} // namespace mailgrad::messaging
