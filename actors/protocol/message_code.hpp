// In CAF 0.17 each source that sends a message would compile the code that copies, prints and serialises it,
// which took a third of the time of our sources. With this header one source does so for all.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>

// MAILGRAD_MESSAGE_CODE(type) declares the functions that need this code. register_messages.cpp sets the
// following macro to nothing and so defines them.
#ifndef MAILGRAD_EXTERN
#define MAILGRAD_EXTERN extern
#endif

#if CAF_MAJOR_VERSION >= 1
#define MAILGRAD_MESSAGE_CODE(type)
#else
#define MAILGRAD_MESSAGE_CODE(type)                                                                          \
  MAILGRAD_MESSAGE_CODE_FROM(type&&)                                                                         \
  MAILGRAD_MESSAGE_CODE_FROM(type&)                                                                          \
  MAILGRAD_MESSAGE_CODE_FROM(const type&)
#define MAILGRAD_MESSAGE_CODE_FROM(argument)                                                                 \
  MAILGRAD_EXTERN template caf::message caf::make_message(argument);                                         \
  MAILGRAD_EXTERN template caf::mailbox_element_ptr caf::make_mailbox_element(                               \
      caf::strong_actor_ptr, caf::message_id, caf::mailbox_element::forwarding_stack, argument);
#endif
