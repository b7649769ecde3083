#include <mailgrad/cli/option_table.hpp>

#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/options/interval.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/spelling.hpp>

#include <array>
#include <cmath>

namespace mailgrad {

namespace {

/// Wraps descriptions, which the parser's own format leaves in one line.
class help_format final : public CLI::Formatter {
public:
  help_format() {
    const std::pair<const char*, const char*> labels[] = {
        {"UINT", "N"}, {"FLOAT", "X"}, {"TEXT", "WORD"}, {"Needs", "only with"}, {"Excludes", "not with"}};
    for (const auto& [parsers, ours] : labels) label(parsers, ours);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(),
                   help_width - get_column_width()); // the parser indents each line
  }
};

/// The innermost that was given, as `run` of `mailgrad lab run`.
const CLI::App& parsed_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : parsed_command(*chosen.front());
}

/// "mailgrad train", "mailgrad lab run"
std::string name_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above ? name_of(*above) + ' ' + command.get_name() : "mailgrad";
}

std::string where_to_look(const CLI::App& command) {
  return "; '" + name_of(command) + " --help' lists what it takes";
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string suggested(std::string_view word, const std::vector<std::string>& names) {
  return suggestion(word, std::vector<std::string_view>(names.begin(), names.end()));
}

/// The option or argument at the beginning of the parser's message, such as "--batch: ...".
const CLI::Option* option_in(std::string_view message, const CLI::App& command) {
  constexpr std::string_view conversion = "Could not convert: ";
  if (message.starts_with(conversion)) message.remove_prefix(conversion.size());
  std::string_view name = message.substr(0, message.find_first_of(": "));
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  for (const CLI::Option* option : command.get_options())
    if (std::ranges::find(option->get_lnames(), name) != option->get_lnames().end() ||
        option->get_name() == name)
      return option;
  return nullptr;
}

/// Finds an option whose value was forgotten, so that it took the next option for its value.
std::string forgotten_value(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.starts_with("--") && value.size() > 2)
        return option->get_name() + " needs a value before '" + value + "'";
  return {};
}

template <class Error>
bool is(const CLI::ParseError& e) {
  return dynamic_cast<const Error*>(&e) != nullptr;
}

/// Rewrites the parser's message, which is written for programmers, for the user of the tool.
std::string in_words(const CLI::ParseError& e, const CLI::App& command) {
  const std::string why = e.what();
  const std::string one = why.substr(0, why.find(' ')), other = why.substr(why.rfind(' ') + 1);
  if (is<CLI::ExcludesError>(e))
    return fmt::format("{} and {} exclude each other: give one of them", one, other);
  if (is<CLI::RequiresError>(e)) return fmt::format("{} makes sense only with {}: add it", one, other);
  if (is<CLI::RequiredError>(e) && !commands_of(command).empty())
    return "a command is missing; " + suggested("", commands_of(command));
  const CLI::Option* option = option_in(why, command);
  if (option == nullptr || is<CLI::ValidationError>(e)) return why;
  const std::string name = option->get_name();
  if (is<CLI::RequiredError>(e)) {
    std::string what = option->get_description(); // its first words; the rest is for its help
    for (const char* mark : {"; ", ". ", ": "}) what = what.substr(0, what.find(mark));
    return fmt::format("the {} '{}' is missing: {}", name.starts_with('-') ? "option" : "argument", name,
                       what);
  }
  if (option->get_expected_max() == 0) return name + " takes no value";
  const auto values = option->results();
  if (is<CLI::ConversionError>(e) && !values.empty()) return name + " cannot be '" + values.front() + "'";
  if (values.size() > 1) return fmt::format("{} is given {} times: give it once", name, values.size());
  return name + " needs a value";
}

std::string unknown_argument(const CLI::App& command, const std::string& word) {
  if (const auto names = commands_of(command); !names.empty())
    return name_of(command) + " has no command '" + word + "'; " + suggested(word, names);
  return name_of(command) + " has no argument '" + word + "'" + where_to_look(command);
}

/// Another command beside this one that has an option of this name; empty if none has.
std::string owner_of(const CLI::App& command, const std::string& letters) {
  if (command.get_parent() == nullptr) return {};
  for (const CLI::App* other : command.get_parent()->get_subcommands({}))
    if (letters.size() > 1 && other->get_option_no_throw("--" + letters) != nullptr) return name_of(*other);
  return {};
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string text = name_of(command) + " has no option '" + word + "'";
  const std::string letters = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const auto has = [&](const std::string& name) {
    return command.get_option_no_throw("--" + name) != nullptr;
  };
  const auto guess = [&](std::string_view name) {
    return fmt::format("{}; did you mean '--{}'?", text, name);
  };
  if (has("lr") && letters.starts_with("learning")) return guess("lr");
  const std::string other = // "devices" for "device", and the other way round
      letters.ends_with('s') ? letters.substr(0, letters.size() - 1) : letters + 's';
  if (other.size() > 1 && has(other)) return guess(other);
  std::vector<std::string_view> names; // the long ones, without dashes
  for (const CLI::Option* option : command.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  const auto longer = std::ranges::find_if(
      names, [&](std::string_view name) { return letters.size() > 2 && name.starts_with(letters); });
  if (longer != names.end()) return guess(*longer);
  if (const std::string others = owner_of(command, letters); !others.empty())
    return fmt::format("{}; '{}' has it", text, others);
  const std::string_view meant = meant_name(letters, names);
  return meant.empty() ? text + where_to_look(command) : guess(meant);
}

/// "must be a number from 0 to 1, not 'x'"
std::string refusal(const std::string& what, const std::string& word) {
  return fmt::format("must be {}, not '{}'", what, word);
}

/// Accepts the values of which `is_right` says so, and says of others what a right one is.
template <class IsRight>
CLI::Validator accepts(const std::string& what, const IsRight& is_right) {
  return {[=](const std::string& word) { return is_right(word) ? std::string() : refusal(what, word); }, ""};
}

/// "automatic, classification or regression"
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

struct renamed_option {
  std::string_view was, is;
};
constexpr std::array<renamed_option, 2> renamed{
    {{"--seats", "--slots"}, {"--own-samples", "--local-samples"}}};

/// Calls `take` with each word that has an old name, and with that option.
template <class Words, class Take>
void for_each_old(Words& words, const Take& take) {
  for (auto& word : words) {
    if (word == "--") return; // what follows are the words of another program
    const auto found = std::ranges::find(renamed, option_args::option_of(word), &renamed_option::was);
    if (found != renamed.end()) take(word, *found);
  }
}

} // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string all;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > width) {
      all.append("\n").append(indent, ' ');
      column = 0;
    } else if (column > 0) {
      all += ' ';
      ++column;
    }
    all += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string help_entry(std::string_view name, std::string_view what) {
  constexpr std::size_t indent = 19;
  std::string text = fmt::format("  {} ", name);
  if (text.size() > indent)
    text.append("\n").append(indent, ' ');
  else
    text.resize(indent, ' ');
  return text + wrapped(what, help_width - indent, indent) + '\n';
}

std::shared_ptr<CLI::FormatterBase> make_help_format() { return std::make_shared<help_format>(); }

std::string explain(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App& command = parsed_command(app);
  const std::vector<std::string> extras = app.remaining(true);
  const bool about_extras = is<CLI::ExtrasError>(e) || is<CLI::RequiredError>(e);
  if (extras.empty() || !about_extras) {
    const std::string text = in_words(e, command);
    return text.find("; ") == std::string::npos ? text + where_to_look(command) : text;
  }
  if (const std::string text = forgotten_value(command); !text.empty()) return text + where_to_look(command);
  const std::string word = std::string(option_args::option_of(extras.front()));
  if (!word.starts_with('-')) return unknown_argument(command, extras.front());
  const bool before = !app.remaining(false).empty() && &command != &app;
  if (before && command.get_option_no_throw(word) != nullptr)
    return fmt::format("'{0}' stands before the command: write '{1} {0} ...'", word, name_of(command));
  return unknown_option(command, word);
}

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const bool open = most == std::numeric_limits<std::uint64_t>::max();
  const std::string what = open ? fmt::format("a whole number from {} on", least)
                                : fmt::format("a whole number from {} to {}", least, most);
  return {[=](const std::string& word) {
            const auto n = parse_whole(word);
            if (n && *n >= least && *n <= most) return std::string();
            const bool is_too_large =
                open && !n && !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
            return refusal(is_too_large ? "a whole number below 2^64" : what, word);
          },
          ""};
}

CLI::Validator number(double least, double most) {
  const bool open = least == std::numeric_limits<double>::lowest();
  return accepts(open ? "a finite number, such as 0.01"
                      : fmt::format("a number from {:g} to {:g}", least, most),
                 [=](const std::string& word) {
                   const auto x = parse_number(word);
                   return x && std::isfinite(*x) && *x >= least && *x <= most;
                 });
}

CLI::Validator interval_text() {
  return {[](const std::string& word) {
            try {
              parse_interval(word);
              return std::string();
            } catch (const std::invalid_argument& e) {
              return std::string(e.what());
            }
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  return accepts(listed(words),
                 [=](const std::string& word) { return std::ranges::find(words, word) != words.end(); })
      .name(fmt::format("{}", fmt::join(words, "|")));
}

CLI::Validator one_of_or_seconds(std::vector<std::string> words, std::uint64_t most) {
  return accepts(fmt::format("{} or a number of seconds from 1 to {}", fmt::join(words, ", "), most),
                 [=](const std::string& word) {
                   const auto seconds = parse_whole(word);
                   return std::ranges::find(words, word) != words.end() ||
                          (seconds && *seconds >= 1 && *seconds <= most);
                 });
}

CLI::Validator file_name() {
  return {[](const std::string& name) {
            return name.empty() ? std::string("a file name is missing") : std::string();
          },
          ""};
}

std::vector<std::string> given_args(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    std::string word = "--" + option->get_lnames().front();
    const bool flag = option->get_expected_max() == 0;
    for (const std::string& value : option->results())
      if (!flag) word += (word.find('=') == std::string::npos ? '=' : ',') + value;
    words.push_back(std::move(word));
  }
  return words;
}

std::vector<std::string> with_present_names(std::vector<std::string> words) {
  for_each_old(words,
               [](std::string& word, const renamed_option& o) { word.replace(0, o.was.size(), o.is); });
  return words;
}

void warn_of_old_names(std::span<const std::string> typed) {
  for_each_old(typed, [](const std::string&, const renamed_option& o) {
    say_warning(fmt::format("{} is called {} now; the old name ends with the next release", o.was, o.is));
  });
}

} // namespace mailgrad
