#pragma once

#include <mailgrad/tests/net/checked_talk.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::net {

/// Which faults a run may have. The seed draws when, where and how often.
struct fault_plan {
  bool cuts = false;   ///< kill, freeze, cut, leave and another process under the same number
  bool losses = false; ///< frames are sent again
  bool broken = false; ///< frames vanish, change their order or their bits
  bool slow = false;   ///< readers that read slowly
};

/// A server and some workers that talk over a simulated network for some seconds while faults happen, then in
/// peace, and then leave. Whatever breaks a promise is noted.
class simulated_run final : public doorkeeper {
public:
  simulated_run(std::uint64_t seed, const fault_plan& plan);
  ~simulated_run() override;

  /// All of it. Returns what went wrong.
  const run_notes& play();
  std::uint64_t trace() const noexcept { return net_.trace(); }
  /// How often each reason ended a session, on either side.
  const std::map<end_reason, int>& reasons() const noexcept { return reasons_; }

private:
  struct process;

  session_events& let_in(session& s, const std::string& from) override;
  void turned_away(const refusal&, const std::string&) override {}

  void start(std::uint32_t worker, std::uint32_t incarnation = 0);
  void plan_fault(instant moment);
  void fail(std::uint32_t worker);
  void kill(std::uint32_t worker);
  void check_noticed(std::uint64_t session, instant died);
  void check_books();
  void check_reasons(const session_book& b);
  weather drawn_weather();
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::chrono::milliseconds between(int least, int most) {
    return std::chrono::milliseconds{least +
                                     static_cast<int>(below(static_cast<std::uint64_t>(most - least)))};
  }

  fault_plan plan_;
  std::mt19937_64 random_;
  simulated_network net_;
  weather weather_;
  run_notes notes_;
  std::map<end_reason, int> reasons_;
  std::uint64_t session_numbers_;
  std::unique_ptr<server_end> server_;
  std::vector<std::unique_ptr<checked_talk>> at_server_;
  std::vector<std::unique_ptr<process>> processes_; ///< also those that are gone
  std::vector<process*> workers_;                   ///< which process is each worker now
  bool ending_ = false;
  bool server_stood_still_ = false;
};

} // namespace mailgrad::net
