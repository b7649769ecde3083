#include <mailgrad/cli/report/expected_staleness.hpp>

#include <mailgrad/options/number.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace mailgrad {

namespace {

expected_staleness unknown(std::string why) { return {{}, false, {}, std::move(why)}; }

/// The K of "k-async:K", or with `place` 1 the Q of "queue:B,Q"; nothing if it is not a number above 0.
std::optional<double> argument_of(std::string_view policy, std::size_t place = 0) {
  const named_choice choice(policy);
  if (choice.arguments.size() <= place) return std::nullopt;
  const auto found = parse_whole(choice.arguments[place]);
  return found && *found > 0 ? std::optional(static_cast<double>(*found)) : std::nullopt;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Of a worker that made so many gradients, by the shard that took most of them.
expected_staleness of_async(std::uint64_t gradients, std::uint64_t updates) {
  if (gradients == 0 || updates < gradients)
    return unknown("The worker made no update, or the run has other updates than its gradients.");
  const double share = static_cast<double>(gradients) / static_cast<double>(updates);
  return {1 / share - 1, false, share,
          "The mean of a worker that makes a share p of all updates is 1/p - 1. The line is the law for "
          "exponential times of steps, p (1 - p)^k. With steps of equal length all gaps lie at the mean."};
}

std::vector<std::uint64_t> gradients_of_workers(const training_report& r) {
  std::vector<std::uint64_t> all(r.workers);
  for (const exchange_figures& x : r.exchanges) all[x.worker] = std::max(all[x.worker], x.gaps.total());
  return all;
}

/// Of any worker under a policy other than `async`.
expected_staleness of_policy(const training_report& r, const std::string& policy) {
  const std::string_view name = name_of_choice(policy);
  const double workers = r.workers;
  const std::optional<double> k = argument_of(policy);
  if (is_one_of(name, {"sync", "backup", "k-batch-sync", "rennala", "malenia"}))
    return {0, false, {}, "Under this policy no gradient is stale."};
  if (is_one_of(name, {"ssp", "dssp", "hogwild"}))
    return {workers - 1, true, {}, "The mean over all workers is at most M - 1, where M is their number."};
  if (name == "k-async" && k)
    return {std::max(0.0, (workers - *k) / *k), false, {}, "The mean over all workers is (M - K) / K."};
  if (name == "k-batch-async" && k)
    return {(workers - 1) / *k, false, {}, "The mean over all workers is (M - 1) / K."};
  if (const std::optional<double> q = argument_of(policy, 1); name == "queue" && k && q)
    return {(workers + *q - *k) / *k,
            false,
            {},
            "The mean over all workers is (M + Q - B) / B once the queue is full."};
  if (name == "ringleader")
    return {2 * workers - 2,
            true,
            {},
            "Each gap is at most 2 M - 2, where M is the number of workers, if none comes or goes."};
  if (name == "ringmaster" && k) return {*k - 1, true, {}, "Each gap is at most R - 1."};
  return unknown("For this policy no law is known.");
}

} // namespace

std::vector<expected_staleness> expected_of(const training_report& r, const std::string& policy,
                                            std::size_t workers) {
  if (!r.switches.empty() || policy.find('@') != std::string::npos)
    return std::vector(workers, unknown("The policy changed in mid-run, so no single law holds."));
  if (name_of_choice(policy) != "async") return std::vector(workers, of_policy(r, policy));
  const std::vector<std::uint64_t> gradients = gradients_of_workers(r);
  std::vector<expected_staleness> all;
  for (std::size_t worker = 0; worker < workers; ++worker)
    all.push_back(of_async(gradients[worker], r.updates));
  return all;
}

} // namespace mailgrad
