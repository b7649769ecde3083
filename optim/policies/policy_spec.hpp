#pragma once

#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// The properties of a policy, known without an object of it.
struct policy_traits {
  bool needs_shards = true;  ///< false for hogwild, whose workers use no shard and which has no object
  bool always_fresh = false; ///< this and the rest: the functions of `policy` with the same names
  bool makes_batches = false;
  bool shards_agree = false;
  bool deals_by_rank = false;
  std::size_t queue_length = 0;
  bool has_most_stale = false; ///< whether most_stale() says a limit
  bool has_rounds = false;
  /// Whether it may count who comes first, or how long somebody takes: all but some of the built-in ones.
  bool reads_arrival = false;
};

/// The policy that a user chose, parsed once from the text of an option.
class policy_spec {
public:
  /// "async", "ssp:3", "dssp:1,4", "hogwild", or one of a user's own, "mine:3" or "./libmine.so:3".
  /// Errors  std::invalid_argument in one line that says what would be right.
  policy_spec(std::string_view text, std::uint32_t workers);
  const std::string& text() const noexcept { return text_; }
  const policy_traits& traits() const noexcept { return traits_; }
  /// Null if it needs no shards.
  std::unique_ptr<policy> make() const;
  /// An update is made of so many gradients at least, unless the workers that fill its batch have gone. 1 if
  /// that is not known.
  std::uint64_t gathers() const noexcept { return gathers_; }
  friend bool operator==(const policy_spec& a, const policy_spec& b) noexcept {
    return a.text_ == b.text_ && a.workers_ == b.workers_;
  }

private:
  using maker = std::unique_ptr<policy> (*)(std::span<const std::uint64_t>, world_size);

  std::string text_;
  std::uint32_t workers_;
  maker make_;
  std::vector<std::uint64_t> numbers_; ///< after the colon
  policy_traits traits_;
  std::uint64_t gathers_ = 1;
};

/// Throws "policy 'ssp:x': why"; `text` is what the user wrote.
[[noreturn]] void refuse_policy(std::string_view text, const std::string& why);

/// The names of all policies for error messages, Mailgrad's first, then users' own.
std::vector<std::string_view> policy_names();

/// Requires that a policy_spec of this text would load no library: another process, or a page, must not have
/// this one do so.
/// Errors  std::invalid_argument in one line.
void require_loaded(std::string_view text);

/// Whether this is the name of a policy, or the file of a plug-in that is loaded.
bool is_known_policy(std::string_view word);

/// How each is written, with its numbers, and what it does in a few words: {"ssp:S", "..."}.
struct policy_form {
  std::string_view text;
  std::string_view what;
};
std::vector<policy_form> policy_forms();

/// An object of a policy that has one.
/// Errors  as policy_spec; std::invalid_argument for "hogwild".
std::unique_ptr<policy> make_policy(std::string_view text, std::uint32_t workers);

} // namespace mailgrad
