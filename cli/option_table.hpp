#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mailgrad {

inline constexpr std::size_t help_width = 100;

/// Breaks `text` between words into lines of at most `width` columns; a longer word gets a line of its own.
/// All lines but the first begin with `indent` spaces, which do not count as columns.
std::string wrapped(std::string_view text, std::size_t width = help_width, std::size_t indent = 0);
/// A line of a list, "  name             what", with `what` wrapped.
std::string help_entry(std::string_view name, std::string_view what);

/// The layout of the help of every command, with names for kinds of values that users know.
std::shared_ptr<CLI::FormatterBase> make_help_format();

/// Says what is wrong with the command line, in one line that names the nearest right option or command.
std::string explain(const CLI::App& app, const CLI::ParseError& e);

/// Parses the options of a recording or a checkpoint, which `whose` names.
///
/// Errors  Refusal with one line for what the parser does not take.
template <class Refusal>
void parse(CLI::App& parser, const std::vector<std::string>& words, const std::string& whose) {
  try {
    parser.parse(std::vector<std::string>(words.rbegin(), words.rend())); // in reverse order
  } catch (const CLI::ParseError& e) {
    throw Refusal(whose + ": " + explain(parser, e));
  }
}

// Checks of an option's value. Each says in one line what a right value is, so that the parser never refuses
// a value with its own text.

CLI::Validator whole_number(std::uint64_t least,
                            std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
CLI::Validator number(double least = std::numeric_limits<double>::lowest(),
                      double most = std::numeric_limits<double>::max());
CLI::Validator interval_text();
/// Accepts one of these words. Its name has them all, with | between them.
CLI::Validator one_of(std::vector<std::string> words);
/// Accepts one of these words, or a whole number of seconds from 1 to `most`.
CLI::Validator one_of_or_seconds(std::vector<std::string> words, std::uint64_t most);
/// Accepts any text but an empty one, which often comes from an unset variable of a script.
CLI::Validator file_name();

/// The options of a parsed command as the user gave them, each as "--batch=32". A recording keeps them, so
/// that a replay has the same options.
std::vector<std::string> given_args(const CLI::App& command);

/// The options of a command as it was typed, such as "--save=x" or "--quiet".
class option_args {
public:
  option_args() = default;
  explicit option_args(std::vector<std::string> words) : words_(std::move(words)) {}

  /// "--save=x" and "--save" are words of the same option.
  static std::string_view option_of(std::string_view word) { return word.substr(0, word.find('=')); }

  bool has(std::string_view option) const {
    return std::ranges::find(words_, option, option_of) != words_.end();
  }
  void drop(std::string_view option) {
    drop_if([&](std::string_view other) { return other == option; });
  }
  /// Drops the options of which this is said.
  template <class Says>
  void drop_if(const Says& says) {
    std::erase_if(words_, [&](const std::string& word) { return says(option_of(word)); });
  }
  void drop(std::initializer_list<const char*> options) {
    for (const char* option : options) drop(option);
  }
  /// Drops these, but for those that `kept` has.
  void drop_unless(const option_args& kept, std::initializer_list<const char*> options) {
    for (const char* option : options)
      if (!kept.has(option)) drop(option);
  }
  /// Takes the place of the word of the same option, if there is one.
  void set(std::string word) {
    drop(option_of(word));
    words_.push_back(std::move(word));
  }
  void set(const option_args& more) {
    for (const std::string& word : more.words_) drop(option_of(word));
    words_.insert(words_.end(), more.words_.begin(), more.words_.end());
  }

  const std::vector<std::string>& all() const noexcept { return words_; }
  std::vector<std::string> take() { return std::move(words_); }

private:
  std::vector<std::string> words_;
};

// Options that have another name since the last release. The old name works for one release more.

/// "--slots=4" for "--seats=4", and any other word as it is; up to "--". Also for words of recordings,
/// checkpoints and sweeps, which may be older than the new name.
std::vector<std::string> with_present_names(std::vector<std::string> words);

/// Prints a line to standard error for each old name among words that were typed, which says the new one.
void warn_of_old_names(std::span<const std::string> typed);

/// What commands have to know of an option besides its value.
enum option_kind : unsigned {
  of_display = 1,       ///< how a run is shown, which is no part of it
  of_resuming = 2,      ///< how it goes on, which is none either
  of_checkpoints = 4,   ///< where its state is kept
  of_pace = 8,          ///< how often it writes lines and tests its weights
  of_choice = 16,       ///< which weights its tests choose
  of_looks = 32,        ///< what of a run is seen, which a replay says anew
  of_server = 64,       ///< has `mailgrad serve` alone
  of_processes = 128,   ///< is for workers in other processes, also of a server
  of_one_process = 256, ///< is for workers in one process, and no other command can take it back
  of_places = 512,      ///< where data, workers and weights are, which a replay may find elsewhere
  of_data = 1024        ///< what the samples are
};

// What a row of the table says besides name, value and help: a check, a kind, or one of these.

inline void shown(CLI::App&, CLI::Option& o) { o.capture_default_str(); } ///< its default, in the help
inline void required(CLI::App&, CLI::Option& o) { o.required(); }
/// A list takes one value each time that its option is given.
inline void one_each(CLI::App&, CLI::Option& o) { o.allow_extra_args(false); }
/// A flag may be given as "--flag=false".
inline void overridable(CLI::App&, CLI::Option& o) { o.disable_flag_override(false); }
inline auto value_name(const char* name) {
  return [name](CLI::App&, CLI::Option& o) { o.type_name(name); };
}
/// The value may not be empty, and is shown as "FILE" or "DIR".
inline auto path(const char* name) {
  return [name](CLI::App&, CLI::Option& o) { o.check(file_name())->type_name(name); };
}
// Another option of the command, which stands before this one.
inline auto needs(const char* other) {
  return [other](CLI::App& parser, CLI::Option& o) { o.needs(parser.get_option(other)); };
}
inline auto excludes(const char* other) {
  return [other](CLI::App& parser, CLI::Option& o) { o.excludes(parser.get_option(other)); };
}

/// The table of a command's options. A row makes the option of the parser, and with it the help, the manual
/// page, the completion, and the word that a recording keeps.
///
///   option_table t(parser);
///   t.title("What to train");
///   t.add("--batch", w.batch, whole_number(1), shown, "Samples in a mini-batch of one worker");
class option_table {
public:
  explicit option_table(CLI::App& parser) : parser_(parser) {}

  CLI::App& parser() const noexcept { return parser_; }

  void title(const char* text = "Options") { title_ = text; }

  /// The value must outlive the parser. A bool is a flag. A function takes a value that may be left out. A
  /// text among the traits is the help.
  template <class Value, class... Traits>
  void add(const std::string& name, Value&& value, const Traits&... traits) {
    CLI::Option& option = *made(name, value);
    option.group(title_);
    (apply(name, option, traits), ...);
  }

  /// Those of the option of this name; 0 for none.
  unsigned kinds_of(std::string_view name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? 0 : found->second;
  }

private:
  template <class Value>
  CLI::Option* made(const std::string& name, Value& value) {
    using values = std::vector<std::string>;
    if constexpr (std::is_same_v<Value, bool>)
      return parser_.add_flag(name, value)->disable_flag_override();
    else if constexpr (std::is_invocable_v<Value&, const values&>)
      return parser_.add_option_function<values>(name, value)->expected(0, 1);
    else
      return parser_.add_option(name, value);
  }
  template <class Trait>
  void apply(const std::string& name, CLI::Option& option, const Trait& trait) {
    if constexpr (std::is_convertible_v<const Trait&, std::string>)
      option.description(trait);
    else if constexpr (std::is_convertible_v<Trait, unsigned>)
      kinds_[name] |= trait;
    else if constexpr (std::is_convertible_v<Trait, CLI::Validator>)
      option.check(trait);
    else
      trait(parser_, option);
  }

  CLI::App& parser_;
  std::string title_ = "Options";
  std::map<std::string, unsigned, std::less<>> kinds_;
};

} // namespace mailgrad
