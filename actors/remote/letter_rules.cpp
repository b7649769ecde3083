#include <mailgrad/actors/remote/letter_rules.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad::remote {

void refuse_letter(const std::string& words) { throw net::protocol_error("letter: " + words); }

void letter_rules::require_sender(message_kind kind, const actor_address& from) const {
  const bool is_nobody = from.what == duty::nobody;
  const bool may =
      is_nobody ? may_be_sent_by(kind, duty::nobody) ||
                      std::ranges::any_of(
                          known_, [kind](const actor_address& a) { return may_be_sent_by(kind, a.what); })
                : known_.contains(from) && may_be_sent_by(kind, from.what);
  if (may) return;
  const std::string what(name_of(kind));
  refuse_letter(fmt::format("expected no {} from {}, found one",
                            what.empty() ? fmt::format("message of kind {}", kind) : what, to_string(from)));
}

void letter_rules::require_subject(message_kind kind, const actor_address& from,
                                   const caf::message& m) const {
  const auto about = subject_of(kind, m);
  if (!about) return;
  if (about->what == from.what && *about != from)
    refuse_letter(fmt::format("{}: expected one about {}, which sent it, found one about {}", name_of(kind),
                              to_string(from), to_string(*about)));
  const bool has_such =
      std::ranges::any_of(known_, [&](const actor_address& a) { return a.what == about->what; });
  if (has_such && !known_.contains(*about))
    refuse_letter(fmt::format("{}: expected one about an actor of that process, found one about {}",
                              name_of(kind), to_string(*about)));
}

void letter_rules::ask(message_kind kind, const actor_address& from, const actor_address& of) {
  const auto most = most_unanswered(kind);
  if (most && ++open_[{from, of}] > *most)
    refuse_letter(fmt::format("expected at most {} {} that {} has not answered, found one more", *most,
                              name_of(kind), to_string(of)));
}

void letter_rules::answer(message_kind kind, const actor_address& from, const actor_address& to) {
  if (!is_answer(kind)) return;
  const bool answers_one = kind == kind_of<run_answered>(); // of nobody to a host, as the question
  const auto found = open_.find(answers_one ? std::pair(from, to) : std::pair(to, from));
  if (found == open_.end()) return;
  if (!answers_one || --found->second == 0) open_.erase(found);
}

} // namespace mailgrad::remote
