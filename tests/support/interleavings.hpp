#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// Number of an actor in a run.
using place = std::uint8_t;

/// The receiver of messages that leave the run, such as its outcome. It never sends anything.
inline constexpr place outside = 15;

/// The messages from one actor to another. Only messages on the same line keep their order. Any message that
/// is first on its line may arrive next, even if others were sent before it on other lines.
struct line {
  place from = 0;
  place to = 0;

  friend auto operator<=>(const line&, const line&) = default;
};

/// A message in words. The behaviour of its receiver may depend on nothing but these words.
struct posted {
  line on;
  std::string text;

  friend bool operator==(const posted&, const posted&) = default;
};

/// A message that an actor received or sent.
struct experience {
  bool heard = true; ///< false: the actor sent it
  place other = 0;
  std::string text;

  friend auto operator<=>(const experience&, const experience&) = default;
};
/// All messages of an actor, sorted. Two actors with the same history are in the same state.
using history = std::vector<experience>;

/// A run of real actors that waits until it is told which message arrives next.
class stepped_run {
public:
  virtual ~stepped_run() = default;

  /// Starts all actors and returns what they send. To be called once, before any other member.
  virtual std::vector<posted> begin() = 0;
  /// Delivers the first message on a line. Returns what the receiver then sends, on each line in its order.
  /// Also checks, with GoogleTest, what must hold of the receiver.
  virtual std::vector<posted> deliver(line on) = 0;
  virtual bool has_ended(place actor) const = 0;
};

/// The actors of a run, and facts about them that make different orders equivalent.
class explored_actors {
public:
  virtual ~explored_actors() = default;

  virtual std::size_t count() const = 0; ///< at most `outside`
  virtual std::string name(place actor) const = 0;
  virtual std::unique_ptr<stepped_run> start() const = 0;

  /// The entry for a message in the history of an actor: its words, and what else must be known if the order
  /// of arrival matters. Empty if the message does not change the actor's state.
  virtual std::optional<experience> remembered(place actor, const history& so_far,
                                               experience heard) const = 0;

  /// Whether the search may deliver this message before all others and miss nothing. That is so if, in any
  /// order with other messages for this actor, the actor ends in the same state and has sent the same.
  virtual bool goes_first(place actor, const history& so_far, const std::string& text) const = 0;

  /// Checks what must hold when no message is under way any more. `told` has the messages to `outside`.
  virtual void check_end(const std::vector<std::string>& told) const = 0;
};

struct exploration {
  std::size_t states = 0;  ///< different states in which no message goes first
  std::size_t ends = 0;    ///< those of them without a message under way
  std::size_t merged = 0;  ///< prefixes that led to a known state
  double runs = 0;         ///< complete runs that differ in the order of messages that do not go first
  std::size_t answers = 0; ///< pairs of an actor's state and a message that a real actor answered
  std::size_t replays = 0; ///< runs of real actors from their start
};

/// Explores all orders in which the messages of a run can arrive, and merges equivalent states.
///
/// An actor is a function of the messages it received, since clocks stand still and random numbers are
/// seeded. So a state of the run is the history of each actor and the messages under way. The answer of an
/// actor in one state to one message is computed only once, by real actors that are replayed to that state.
/// The rest is a search through known answers. Each replay compares its answers with the known ones, which
/// tests remembered().
///
/// Stops at the first failure, and prints the deliveries that led to it.
class interleavings {
public:
  explicit interleavings(const explored_actors& actors) : actors_(actors) {}

  exploration explore();

  /// Plays real runs in orders drawn from `random`, in which no message goes first. It expects each run to
  /// end in a state that explore() found, which tests goes_first() and remembered().
  void confirm(std::mt19937_64& random, std::size_t runs);

private:
  struct message {
    line on;
    std::uint32_t text = 0;
  };
  struct answer {
    std::uint32_t history = 0; ///< the receiver's, after the message
    bool ends = false;         ///< whether the receiver ends
    std::vector<message> says;
  };
  struct state {
    std::vector<std::uint32_t> histories; ///< by actor
    std::uint32_t ended = 0;              ///< one bit for each actor
    std::vector<message> under_way;       ///< by line, on each in order
  };
  struct delivery {
    message what;
    const answer* given = nullptr;
  };

  state birth();
  double visit(state at);
  void settle(state& at);
  void deliver(state& at, line on);
  void post(state& at, const std::vector<message>& what) const;
  const answer& answer_of(const state& at, const message& m);
  answer ask(const state& at, const message& m);
  void bring_real_actors_here();
  void check_end(const state& at);
  bool stopped();
  std::vector<line> ready_lines(const state& at) const;
  bool goes_first(const state& at, line on);
  std::vector<message> in_numbers(const std::vector<posted>& what);
  std::uint32_t number_of(const std::string& text);
  std::uint32_t number_of(place actor, history of);
  std::string key_of(const state& at) const;
  std::string schedule() const;

  const explored_actors& actors_;
  exploration found_;
  bool stopped_ = false;
  std::vector<delivery> path_;                   ///< from the beginning to the state of the search
  std::unordered_map<std::string, double> seen_; ///< by state: the number of runs from it to the end
  std::unordered_map<std::uint64_t, answer> answers_;
  std::unordered_map<std::uint64_t, bool> first_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
  std::map<std::pair<place, history>, std::uint32_t> history_numbers_;
  std::vector<history> histories_;

  std::unique_ptr<stepped_run> real_;
  std::vector<line> real_path_;
};

} // namespace mailgrad::testing
