#pragma once

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <algorithm>
#include <deque>

namespace mailgrad {

/// A policy and the step it begins at, counted over all workers.
struct scheduled_policy {
  std::uint64_t from_step = 0;
  policy_spec policy;

  friend bool operator==(const scheduled_policy&, const scheduled_policy&) = default;
};

/// The files of the plug-ins that a schedule names; none is opened.
std::vector<std::string> plugins_of_policy(std::string_view text);

/// Whether a rule switches the policies during the run: "auto", with or without settings, as parse_auto()
/// reads it. Its schedule holds only the policy with which it begins.
bool is_automatic(std::string_view text);

/// Refuses what is more than one policy: a schedule, a policy with a step, and auto.
/// Errors  std::invalid_argument in one line, which says what a switch during a run takes.
void require_one_policy(std::string_view text);

/// "async, sync@1000, ssp:3@2000": the first policy begins with the run, each other at its step.
/// Errors  std::invalid_argument in one line: a policy that policy_spec refuses; a step that is missing, no
///         whole number or not after the one before; auto beside another, or as parse_auto() has it.
std::vector<scheduled_policy> parse_policy_schedule(std::string_view text, std::uint32_t workers);

/// Whether workers write into a block that all of them share, at least for a time.
bool has_hogwild(const std::vector<scheduled_policy>& schedule);

/// How many gradients wait at most in the queue of one of these policies; 0: none has one.
inline std::size_t longest_queue(const std::vector<scheduled_policy>& schedule) {
  std::size_t longest = 0;
  for (const scheduled_policy& p : schedule) longest = std::max(longest, p.policy.traits().queue_length);
  return longest;
}

/// The steps at which all policies but the first begin.
inline std::deque<std::uint64_t> switch_steps(const std::vector<scheduled_policy>& schedule) {
  std::deque<std::uint64_t> steps;
  for (std::size_t i = 1; i < schedule.size(); ++i) steps.push_back(schedule[i].from_step);
  return steps;
}

} // namespace mailgrad
