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

/// Whoever waits for the run: what is sent here stays here.
inline constexpr place outside = 15;

/// From one actor to another. Messages on one line keep their order, and nothing else does: any message that
/// is first on its line may be the next to arrive, whatever was sent before it elsewhere.
struct line {
  place from = 0;
  place to = 0;

  friend auto operator<=>(const line&, const line&) = default;
};

/// A message in words. The words are all that the receiver's doings may depend on.
struct posted {
  line on;
  std::string text;

  friend bool operator==(const posted&, const posted&) = default;
};

/// What an actor heard or said.
struct experience {
  bool heard = true; ///< false: said
  place other = 0;
  std::string text;

  friend auto operator<=>(const experience&, const experience&) = default;
};
/// All of it, sorted: two actors of one life are in the same state.
using life = std::vector<experience>;

/// A run of real actors that stands still until it is told which message arrives next.
class stepped_run {
public:
  virtual ~stepped_run() = default;

  /// What all send when they are born; to be called once, before all else.
  virtual std::vector<posted> begin() = 0;
  /// Hands over the first message on a line; what the receiver then sends, on each line in its order. Checks,
  /// by GoogleTest's means, what must hold of the receiver.
  virtual std::vector<posted> deliver(line on) = 0;
  virtual bool has_ended(place actor) const = 0;
};

/// The actors of a run, and what is known of them that makes different orders alike.
class explored_actors {
public:
  virtual ~explored_actors() = default;

  virtual std::size_t count() const = 0; ///< at most `outside`
  virtual std::string name(place actor) const = 0;
  virtual std::unique_ptr<stepped_run> start() const = 0;

  /// How a message is remembered: in the words it came with, and what of the moment must be known besides,
  /// where the order matters that it was heard in. Nothing if it leaves no trace.
  virtual std::optional<experience> remembered(place actor, const life& so_far, experience heard) const = 0;

  /// Whether this message may go before all others without loss: in any order with whatever else may still
  /// reach its receiver, it leaves the same receiver behind, which has said the same.
  virtual bool goes_first(place actor, const life& so_far, const std::string& text) const = 0;

  /// Checks what must hold when no message is under way any more; `told` are those to the outside.
  virtual void check_end(const std::vector<std::string>& told) const = 0;
};

struct exploration {
  std::size_t states = 0;  ///< different ones in which nothing goes first
  std::size_t ends = 0;    ///< of these, without a message under way
  std::size_t merged = 0;  ///< prefixes that led to a state known before
  double runs = 0;         ///< complete ones that differ in the order of what does not go first
  std::size_t answers = 0; ///< of one actor in one state to one message, each given by a real actor
  std::size_t replays = 0; ///< runs of real actors, from their birth
};

/// All orders in which the messages of a run can arrive, with equivalent states merged.
///
/// An actor is a function of what it heard: clocks stand still, chance is seeded. So a state of a run is the
/// life of each actor and the messages under way, and what an actor in a certain state says to a message need
/// be tried only once, on real actors that are brought there from their birth. All else is a search through
/// known answers. Each replay compares the answers on its way with those known, and so tests what
/// remembered() claims.
///
/// Stops at the first failure, and prints the deliveries that led to it.
class interleavings {
public:
  explicit interleavings(const explored_actors& actors) : actors_(actors) {}

  exploration explore();

  /// Plays real runs in orders drawn from `random`, where nothing goes first, and expects each to end in a
  /// state that explore() came to: a test of goes_first() and remembered().
  void confirm(std::mt19937_64& random, std::size_t runs);

private:
  struct message {
    line on;
    std::uint32_t text = 0;
  };
  struct answer {
    std::uint32_t life = 0; ///< of the receiver, afterwards
    bool ends = false;      ///< the receiver
    std::vector<message> says;
  };
  struct state {
    std::vector<std::uint32_t> lives; ///< by actor
    std::uint32_t ended = 0;          ///< one bit an actor
    std::vector<message> under_way;   ///< by line, on each in order
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
  std::uint32_t number_of(place actor, life of);
  std::string key_of(const state& at) const;
  std::string schedule() const;

  const explored_actors& actors_;
  exploration found_;
  bool stopped_ = false;
  std::vector<delivery> path_;                   ///< from the beginning to where the search stands
  std::unordered_map<std::string, double> seen_; ///< states, and how many runs each has to its end
  std::unordered_map<std::uint64_t, answer> answers_;
  std::unordered_map<std::uint64_t, bool> first_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
  std::map<std::pair<place, life>, std::uint32_t> life_numbers_;
  std::vector<life> lives_;

  std::unique_ptr<stepped_run> real_;
  std::vector<line> real_path_;
};

} // namespace mailgrad::testing
