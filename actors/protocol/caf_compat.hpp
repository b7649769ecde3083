// The one file that knows whether we build on CAF 0.17 or 1.x.
// Whatever is not here (quit, exit reasons, spawn options) is spelled alike in both. Delete the 0.17
// branches, then this file, with Debian's 0.17.6.
#pragma once

#include <caf/all.hpp>

#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#if CAF_MAJOR_VERSION >= 1 // not CAF_VERSION: 1.1.0 defines that as octal 0100
#include <caf/actor_from_state.hpp>
#define MAILGRAD_ERROR_ENUM(type, category) CAF_ERROR_CODE_ENUM(type)
#else
#define MAILGRAD_ERROR_ENUM(type, category) CAF_ERROR_CODE_ENUM(type, category)
#endif

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace mailgrad {

inline constexpr bool caf_1 = CAF_MAJOR_VERSION >= 1;

/// What ThreadSanitizer cannot see by itself. CAF 0.17 comes compiled without instrumentation, but for its
/// templates, which are compiled here: of each hand-over it sees one half. So two things are said where they
/// happen, and nothing is silenced that a handler does:
///   - all that was done before a message is sent happens before it is handled (release, acquire);
///   - a mailbox, a message on its way, an actor between two handlers, and a system that begins or ends are CAF's
///     own (inside_caf).
namespace hand_over {
#ifdef __SANITIZE_THREAD__
/// Everything released under a tag happens before everything acquired under it later.
inline void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
inline void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
#else
inline void release(const void*) {}
inline void acquire(const void*) {}
#endif

#if defined(__SANITIZE_THREAD__) && CAF_MAJOR_VERSION < 1
/// While one lives, what this thread reads and writes is CAF's affair.
struct inside_caf {
  inside_caf() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~inside_caf() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  inside_caf(const inside_caf&) = delete;
  inside_caf& operator=(const inside_caf&) = delete;
};
/// While one lives, it is ours again: CAF has called a handler.
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

/// The identity of an actor's mailbox, the same for all handles to it.
inline const void* tag(const caf::actor& actor) { return caf::actor_cast<caf::abstract_actor*>(actor); }
inline const void* tag(const caf::abstract_actor* self) { return self; }
} // namespace hand_over

template <class T>
struct named_field {
  const char* name;
  T& value;
};
template <class T>
named_field<T> field(const char* name, T& value) {
  return {name, value};
}

/// Body of every `inspect`: `return fields(f, x, field("a", x.a), ...);`.
template <class Inspector, class T, class... Ts>
auto fields(Inspector& f, [[maybe_unused]] T& x, named_field<Ts>... xs) {
  if constexpr (caf_1)
    return f.object(x).fields(f.field(xs.name, xs.value)...);
  else
    return f(xs.value...);
}

#if CAF_MAJOR_VERSION >= 1
/// Serializes our enumerations as integers; CAF 0.17 does so by itself.
template <class Inspector, class Enum>
requires std::is_enum_v<Enum>
bool inspect(Inspector& f, Enum& x) {
  using rep = std::underlying_type_t<Enum>;
  return f.apply([&x] { return static_cast<rep>(x); },
                 [&x](rep y) { return x = static_cast<Enum>(y), true; });
}
#endif

/// Full name of a CAF option such as "scheduler.max-threads".
inline std::string option(const std::string& name) { return caf_1 ? "caf." + name : name; }

/// Gives all threads one queue, first come, first served. The default, a stack for each thread, lets actors
/// that keep each other busy starve whoever is called from outside: a request to stop would wait for the end.
inline void share_work(caf::actor_system_config& config) {
#if CAF_MAJOR_VERSION >= 1
  config.set("caf.scheduler.policy", "sharing");
#else
  config.set("scheduler.policy", caf::atom("sharing"));
#endif
}

/// Registers message types. Call it from the config's constructor, before any actor system exists.
template <class... Blocks>
void configure([[maybe_unused]] caf::actor_system_config& config) {
#if CAF_MAJOR_VERSION >= 1
  caf::core::init_global_meta_objects();
  (caf::init_global_meta_objects<Blocks>(), ...);
#else
  (config.template add_message_types<Blocks>(), ...);
#endif
}

template <class Self, class Handle, class... Ts>
void send(Self&& self, const Handle& to, Ts&&... xs) {
  hand_over::release(hand_over::tag(to));
  const hand_over::inside_caf hidden;
  if constexpr (caf_1)
    self->mail(std::forward<Ts>(xs)...).send(to);
  else
    self->send(to, std::forward<Ts>(xs)...);
}

/// Without a sender: from threads that are no actors.
template <class Handle, class... Ts>
void send_anonymously(const Handle& to, Ts&&... xs) {
  hand_over::release(hand_over::tag(to));
  const hand_over::inside_caf hidden;
#if CAF_MAJOR_VERSION >= 1
  caf::anon_mail(std::forward<Ts>(xs)...).send(to);
#else
  caf::anon_send(to, std::forward<Ts>(xs)...);
#endif
}

/// Ends an actor as a crash would: it handles nothing more.
inline void kill(const caf::actor& whom) {
  const hand_over::inside_caf hidden;
  caf::anon_send_exit(whom, caf::exit_reason::kill);
}

template <class Self, class Handle, class... Ts>
void send_after(Self&& self, caf::timespan delay, const Handle& to, Ts&&... xs) {
  hand_over::release(hand_over::tag(to));
  const hand_over::inside_caf hidden;
  if constexpr (caf_1)
    self->mail(std::forward<Ts>(xs)...).delay(delay).send(to);
  else
    self->delayed_send(to, delay, std::forward<Ts>(xs)...);
}

// CAF 1.x calls default handlers deprecated, in favour of a handler for any message.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// Messages that the behaviour at hand does not know wait until one does; or, as at first, they are dropped
/// with a line.
inline void hold_others(caf::event_based_actor* self) { self->set_default_handler(caf::skip); }
inline void drop_others(caf::event_based_actor* self) { self->set_default_handler(caf::print_and_drop); }
#pragma GCC diagnostic pop

/// Whoever sent the message at hand; null if nobody did.
inline caf::actor sender_of(caf::event_based_actor* self) {
  return caf::actor_cast<caf::actor>(self->current_sender());
}

/// An exception that leaves a handler of `self`, or its birth, ends it; who watches it learns what the
/// exception said.
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

/// What the exception said that ended an actor; empty if none did.
inline std::string last_words(const caf::error& end) {
  if (end != caf::sec::runtime_error) return {};
  const caf::message& said = end.context();
  return said.size() == 1 && said.match_element<std::string>(0) ? said.get_as<std::string>(0) : std::string();
}

/// Sends `notice` to `self` when `whom` terminates; if it has a `why`, with the last words of `whom`.
template <class Self, class Handle, class Message>
void watch(Self* self, const Handle& whom, const Message& notice) {
  const auto told = [notice](const caf::error& end) {
    Message with_reason = notice;
    if constexpr (requires { with_reason.why; }) with_reason.why = last_words(end);
    return with_reason;
  };
  if constexpr (caf_1)
    self->monitor(whom, [self, told](const caf::error& end) { self->mail(told(end)).send(self); });
  else
    whom->attach_functor([observer = self->address(), told](const caf::error& end) {
      if (auto to = caf::actor_cast<caf::actor>(observer)) send_anonymously(to, told(end));
    });
}

namespace hand_over {
/// The span of one handler of `self`, and of its answer to whoever asked.
class turn {
public:
  turn(caf::event_based_actor* self, bool answers) : self_(self), answers_(answers) { acquire(tag(self_)); }
  ~turn() {
    release(tag(self_));
    if (answers_) release(tag(sender_of(self_)));
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

private:
  back_home home_;
  caf::event_based_actor* self_;
  bool answers_;
};
} // namespace hand_over

/// A handler of one message type, `on(self, [this](const push_gradient& x) { ... })`: calls `f` between the
/// hand-over of the mailbox and the next.
template <class F, class Class, class Result, class Message>
auto on([[maybe_unused]] caf::event_based_actor* self, F f, Result (Class::*)(Message) const) {
#ifdef __SANITIZE_THREAD__
  return [self, f = std::move(f)](const std::decay_t<Message>& x) -> Result {
    const hand_over::turn turn(self, !std::is_void_v<Result>);
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

#if CAF_MAJOR_VERSION >= 1
/// A state whose actor keeps its last words.
template <class State>
class outspoken : public State {
public:
  static constexpr const char* name = State::name;

  template <class... Ts>
  explicit outspoken(caf::event_based_actor* self, Ts&&... xs)
      : State((keep_last_words(self), self), std::forward<Ts>(xs)...) {}
};
#else
/// An actor with a state that takes arguments and lives until the actor ends.
template <class State, class... Args>
class host_of final : public caf::event_based_actor {
public:
  template <class... Ts>
  explicit host_of(caf::actor_config& config, Ts&&... xs)
      : caf::event_based_actor(config), arguments_(std::in_place, std::forward<Ts>(xs)...) {
    hand_over::release(hand_over::tag(this));
  }

  const char* name() const override { return State::name; }

  caf::behavior make_behavior() override {
    keep_last_words(this);
    std::apply([this](Args&... xs) { state_.emplace(this, std::move(xs)...); }, *arguments_);
    arguments_.reset();
    return state_->make_behavior();
  }
  void on_exit() override { state_.reset(); }

#ifdef __SANITIZE_THREAD__
  ~host_of() override { hand_over::acquire(hand_over::tag(this)); }
  resume_result resume(caf::execution_unit* unit, std::size_t most) override {
    const hand_over::inside_caf hidden;
    return caf::event_based_actor::resume(unit, most);
  }
#endif

private:
  std::optional<std::tuple<Args...>> arguments_; ///< until the state takes them
  std::optional<State> state_;
};
#endif

/// An actor system that begins and ends inside CAF: its destructor ends CAF's own servers, and waits for the
/// last actor of ours, by messages of its own.
class actor_home {
public:
  explicit actor_home(caf::actor_system_config& config) {
    const hand_over::inside_caf hidden;
    system_.emplace(config);
  }
  ~actor_home() {
#ifdef __SANITIZE_THREAD__
    // CAF's threads end by way of an object on this stack. It must not lie where our own functions have been,
    // since they are not seen to have returned before.
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
    const hand_over::inside_caf hidden;
    system_->await_all_actors_done();
  }

private:
  [[gnu::noinline]] void end() {
    const hand_over::inside_caf hidden;
    system_.reset();
  }

  std::optional<caf::actor_system> system_;
};

/// Spawns `State(self, xs...)` and installs what its `make_behavior()` returns.
template <class State, caf::spawn_options Os = caf::no_spawn_options, class Host, class... Ts>
caf::actor spawn(Host& host, Ts&&... xs) {
  const hand_over::inside_caf hidden;
#if CAF_MAJOR_VERSION >= 1
  return host.template spawn<Os>(caf::actor_from_state<outspoken<State>>, std::forward<Ts>(xs)...);
#else
  return host.template spawn<host_of<State, std::decay_t<Ts>...>, Os>(std::forward<Ts>(xs)...);
#endif
}

} // namespace mailgrad
