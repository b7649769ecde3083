#include <mailgrad/actors/remote/letter_rules.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad::remote {

void refuse_letter(const std::string& words) { throw net::protocol_error("letter: " + words); }

void letter_rules::require_ends(message_kind kind, const actor_address& from, const actor_address& to) const {
  const bool is_nobody = from.what == duty::nobody;
  const bool may =
      is_nobody ? may_be_sent_by(kind, duty::nobody) ||
                      std::ranges::any_of(
                          known_, [kind](const actor_address& a) { return may_be_sent_by(kind, a.what); })
                : known_.contains(from) && may_be_sent_by(kind, from.what);
  const std::string name(name_of(kind)), what = name.empty() ? fmt::format("message of kind {}", kind) : name;
  if (!may) refuse_letter(fmt::format("expected no {} from {}, found one", what, to_string(from)));
  if (!may_be_sent_to(kind, to.what))
    refuse_letter(fmt::format("expected no {} for {}, found one", what, to_string(to)));
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

void letter_rules::take(message_kind kind, const actor_address& from, const actor_address& to) {
  const letter_bound bound = bound_of(kind);
  if (bound.what == letter_bound::of::unread || ++taken_[{from, to, kind}] <= bound.most) return;
  refuse_letter(bound.what == letter_bound::of::in_all
                    ? fmt::format("expected at most {} {} from {}, found one more", bound.most, name_of(kind),
                                  to_string(from))
                    : fmt::format("expected at most {} {} that {} has not answered, found one more",
                                  bound.most, name_of(kind), to_string(to)));
}

void letter_rules::answer(message_kind kind, const actor_address& from, const actor_address& to) {
  const bool answers_one = kind == kind_of<run_answered>(); // of nobody to a host, as the question
  const auto asker = answers_one ? from : to, asked = answers_one ? to : from;
  for (auto it = taken_.lower_bound({asker, asked, 0}); it != taken_.end(); ++it) {
    if (it->first.from != asker || it->first.to != asked) return;
    if (!answers(kind, it->first.kind)) continue;
    if (!answers_one || --it->second == 0) taken_.erase(it);
    return;
  }
}

} // namespace mailgrad::remote
