// What ThreadSanitizer must be told about CAF. In any other build this header does nothing.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace mailgrad {

/// What ThreadSanitizer cannot see by itself. CAF 0.17 is compiled without instrumentation, but its templates
/// are compiled here, so ThreadSanitizer sees one half of each hand-over. Two things are therefore annotated:
///   - everything done before a message is sent happens before it is handled (release, acquire);
///   - a mailbox, a message on its way, an actor between two handlers, and the start and end of a system belong
///     to CAF (inside_caf).
/// Nothing that a handler does is silenced.
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
} // namespace hand_over
} // namespace mailgrad
