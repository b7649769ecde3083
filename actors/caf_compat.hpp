// The one file that knows whether we build on CAF 0.17 or 1.x.
// Whatever is not here (quit, exit reasons, spawn options) is spelled alike in both. Delete the 0.17
// branches, then this file, with Debian's 0.17.6.
#pragma once

#include <caf/all.hpp>

#include <optional>
#include <string>
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
#endif

namespace mailgrad {

inline constexpr bool caf_1 = CAF_MAJOR_VERSION >= 1;

/// What ThreadSanitizer cannot see by itself: CAF as distributions ship it is compiled without
/// instrumentation, so the happens-before of a mailbox is told here, where a message is handed over.
/// Everything released under a tag happens before everything acquired under it later.
namespace hand_over {
#ifdef __SANITIZE_THREAD__
inline void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
inline void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
#else
inline void release(const void*) {}
inline void acquire(const void*) {}
#endif

/// The identity of an actor's mailbox, the same for all handles to it.
template <class Handle>
const void* tag(const Handle& actor) {
  return caf::actor_cast<caf::strong_actor_ptr>(actor).get();
}
inline const void* tag(caf::event_based_actor* self) { return self->ctrl(); }

/// Stands for the moment between spawn() and an actor's first breath.
inline char birth = 0;
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
  if constexpr (caf_1)
    self->mail(std::forward<Ts>(xs)...).send(to);
  else
    self->send(to, std::forward<Ts>(xs)...);
}

/// Without a sender: from threads that are no actors.
template <class Handle, class... Ts>
void send_anonymously(const Handle& to, Ts&&... xs) {
  hand_over::release(hand_over::tag(to));
#if CAF_MAJOR_VERSION >= 1
  caf::anon_mail(std::forward<Ts>(xs)...).send(to);
#else
  caf::anon_send(to, std::forward<Ts>(xs)...);
#endif
}

template <class Self, class Handle, class... Ts>
void send_after(Self&& self, caf::timespan delay, const Handle& to, Ts&&... xs) {
  hand_over::release(hand_over::tag(to));
  if constexpr (caf_1)
    self->mail(std::forward<Ts>(xs)...).delay(delay).send(to);
  else
    self->delayed_send(to, delay, std::forward<Ts>(xs)...);
}

/// Whoever sent the message at hand; null if nobody did.
inline caf::actor sender_of(caf::event_based_actor* self) {
  return caf::actor_cast<caf::actor>(self->current_sender());
}

/// Sends `notice` to `self` when `whom` terminates.
template <class Self, class Handle, class Message>
void watch(Self* self, const Handle& whom, Message notice) {
  if constexpr (caf_1)
    self->monitor(whom, [self, notice](const caf::error&) { self->mail(notice).send(self); });
  else
    whom->attach_functor([observer = self->address(), notice] {
      if (auto to = caf::actor_cast<caf::actor>(observer)) send_anonymously(to, notice);
    });
}

/// A handler of one message type, `on(self, [this](const push_gradient& x) { ... })`: calls `f` between the
/// hand-over of the mailbox and the next.
template <class F, class Class, class Result, class Message>
auto on(caf::event_based_actor* self, F f, Result (Class::*)(Message) const) {
  return [self, f = std::move(f)](Message x) -> Result {
    struct turn {
      const void* tag;
      explicit turn(const void* mailbox) : tag(mailbox) { hand_over::acquire(tag); }
      ~turn() { hand_over::release(tag); }
    } guard{hand_over::tag(self)};
    return f(x);
  };
}
template <class F>
auto on(caf::event_based_actor* self, F f) {
  return on(self, std::move(f), &F::operator());
}

/// Spawns `State(self, xs...)` and installs what its `make_behavior()` returns.
template <class State, caf::spawn_options Os = caf::no_spawn_options, class Host, class... Ts>
caf::actor spawn(Host& host, Ts&&... xs) {
  hand_over::release(&hand_over::birth);
#if CAF_MAJOR_VERSION >= 1
  return host.template spawn<Os>(caf::actor_from_state<State>, std::forward<Ts>(xs)...);
#else
  struct box { // lets us pass arguments to the constructor of the state
    const char* name = State::name;
    std::optional<State> state;
  };
  auto init = [](caf::stateful_actor<box>* self, const std::decay_t<Ts>&... ys) {
    hand_over::acquire(&hand_over::birth);
    auto behavior = self->state.state.emplace(self, ys...).make_behavior();
    hand_over::release(hand_over::tag(static_cast<caf::event_based_actor*>(self)));
    return behavior;
  };
  return host.template spawn<Os>(init, std::forward<Ts>(xs)...);
#endif
}

} // namespace mailgrad
