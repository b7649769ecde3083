#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/program.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <iostream>
#include <ranges>

// Scripts by which a shell completes the words of the tool, made of what the commands declare.

namespace mailgrad {

namespace {

/// An option, or an argument, which has no names.
struct declared_option {
  std::vector<std::string> names; ///< "-h", "--help"
  std::string what;
  bool takes_value = false;
  std::vector<std::string> values; ///< some that it may have; none: a file, or anything
};

struct declared_command {
  std::string words;                                         ///< "lab run"; none: the program itself
  std::vector<std::pair<std::string, std::string>> commands; ///< below it, as "run", and what each does
  std::vector<declared_option> options;
};

/// The words of "yes|no|SECONDS" that are written so.
std::vector<std::string> literal_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : words_between(text, '|'))
    if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == word.npos)
      words.emplace_back(word);
  return words;
}

/// Names that the option may have without being limited to them.
std::vector<std::string> known_names(const std::string& option) {
  std::vector<std::string> names;
  if (option == "--model")
    for (const built_in_form& form : built_in_forms()) names.emplace_back(name_of_choice(form.name));
  if (option == "--policy" || option == "POLICY")
    for (const policy_form& form : policy_forms()) names.emplace_back(name_of_choice(form.text));
  if (option == "--cure")
    for (const cure_form& form : cure_forms()) names.emplace_back(name_of_choice(form.text));
  if (option == "--optimizer" || option == "--outer-optimizer")
    for (const std::string_view name : optimizer_names()) names.emplace_back(name);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

declared_option declared(CLI::Option& option) {
  declared_option d;
  for (const std::string& letter : option.get_snames()) d.names.push_back('-' + letter);
  for (const std::string& word : option.get_lnames()) d.names.push_back("--" + word);
  d.what = option.get_description();
  d.takes_value = option.get_items_expected_max() > 0;
  d.values = literal_words(option.get_type_name());
  try {
    for (int i = 0; d.values.empty(); ++i) d.values = literal_words(option.get_validator(i)->get_name());
  } catch (const CLI::OptionNotFound&) { // it has no further check
  }
  if (d.values.empty()) d.values = known_names(option.get_name());
  return d;
}

void declare(CLI::App& app, const std::string& words, std::vector<declared_command>& all) {
  const std::size_t here = all.size();
  all.push_back({words, {}, {}});
  for (CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) all[here].options.push_back(declared(*option));
  for (CLI::App* below : app.get_subcommands([](CLI::App*) { return true; })) {
    all[here].commands.emplace_back(below->get_name(), below->get_description());
    declare(*below, words.empty() ? below->get_name() : words + ' ' + below->get_name(), all);
  }
}

std::string named_in(const declared_command& c) {
  std::vector<std::string> all;
  for (const auto& [name, what] : c.commands) all.push_back(name);
  for (const declared_option& o : c.options)
    all.insert(all.end(), o.names.empty() ? o.values.begin() : o.names.begin(),
               o.names.empty() ? o.values.end() : o.names.end());
  return fmt::format("{}", fmt::join(all, " "));
}

/// "'train --lr'|'train --save'": the words before a value, as patterns of bash and zsh.
std::string before_value(const declared_command& c, const declared_option& o) {
  const auto pattern = [&](const std::string& name) { return fmt::format("'{} {}'", c.words, name); };
  return fmt::format("{}", fmt::join(o.names | std::views::transform(pattern), "|"));
}

std::string all_words(const std::vector<declared_command>& all) {
  std::string patterns;
  for (const declared_command& c : all)
    if (!c.words.empty()) patterns += fmt::format("{}'{}'", patterns.empty() ? "" : "|", c.words);
  return patterns;
}

std::string for_bash(const std::vector<declared_command>& all) {
  std::string text = "# Completes the words of mailgrad in bash: source <(mailgrad completion bash)\n"
                     "_mailgrad() {\n"
                     "  local command= words= i\n"
                     "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
                     "    case ${command:+$command }${COMP_WORDS[i]} in\n"
                     "      " +
                     all_words(all) +
                     ") command=${command:+$command }${COMP_WORDS[i]} ;;\n"
                     "    esac\n"
                     "  done\n"
                     "  case $command in\n";
  for (const declared_command& c : all)
    text += fmt::format("    '{}') words='{}' ;;\n", c.words, named_in(c));
  text += "  esac\n"
          "  case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  for (const declared_command& c : all)
    for (const declared_option& o : c.options)
      if (o.takes_value && !o.names.empty())
        text += fmt::format("    {}) words='{}' ;;\n", before_value(c, o), fmt::join(o.values, " "));
  return text + "  esac\n"
                "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                "}\n"
                "complete -o default -F _mailgrad mailgrad\n";
}

/// The beginning of a description, within one line.
std::string begin_of(const std::string& what) {
  const std::string lines = wrapped(what, 60);
  return lines.substr(0, lines.find('\n'));
}

/// Between quotes of a shell, in which `quote` stands for one.
std::string shell_quoted(std::string_view text, std::string_view quote) {
  std::string all = "'";
  for (const char c : text) c == '\'' ? all += quote : all += c;
  return all + "'";
}

std::string for_zsh(const std::vector<declared_command>& all) {
  const auto entry = [](const std::string& name, const std::string& what) {
    return ' ' + shell_quoted(name + ':' + begin_of(what), "'\\''");
  };
  std::string text = "#compdef mailgrad\n"
                     "# Completes the words of mailgrad in zsh: source <(mailgrad completion zsh)\n"
                     "_mailgrad() {\n"
                     "  local command= word\n"
                     "  local -a named\n"
                     "  for word in ${words[2,CURRENT-1]}; do\n"
                     "    case ${command:+$command }$word in\n"
                     "      " +
                     all_words(all) +
                     ") command=${command:+$command }$word ;;\n"
                     "    esac\n"
                     "  done\n"
                     "  case \"$command ${words[CURRENT-1]}\" in\n";
  for (const declared_command& c : all)
    for (const declared_option& o : c.options)
      if (o.takes_value && !o.names.empty())
        text +=
            fmt::format("    {}) {}; return ;;\n", before_value(c, o),
                        o.values.empty() ? "_files" : fmt::format("compadd -- {}", fmt::join(o.values, " ")));
  text += "  esac\n"
          "  case $command in\n";
  for (const declared_command& c : all) {
    text += fmt::format("    '{}') named=(", c.words);
    for (const auto& [name, what] : c.commands) text += entry(name, what);
    for (const declared_option& o : c.options) {
      for (const std::string& name : o.names) text += entry(name, o.what);
      if (o.names.empty())
        for (const std::string& value : o.values) text += entry(value, o.what);
    }
    text += " ) ;;\n";
  }
  return text + "  esac\n"
                "  _describe -o word named || _files\n"
                "}\n"
                "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _mailgrad \"$@\"; else compdef "
                "_mailgrad mailgrad; fi\n";
}

std::string when_in(const declared_command& c) {
  if (c.words.empty()) return "__fish_use_subcommand";
  const std::string after = "__fish_seen_subcommand_from ";
  const std::size_t space = c.words.find(' ');
  if (space == std::string::npos) return after + c.words;
  return after + c.words.substr(0, space) + "; and " + after + c.words.substr(space + 1);
}

std::string for_fish(const std::vector<declared_command>& all) {
  const auto what = [](const std::string& words) { return " -d " + shell_quoted(begin_of(words), "\\'"); };
  std::string text = "# Completes the words of mailgrad in fish: mailgrad completion fish | source\n";
  for (const declared_command& c : all) {
    const std::string next = c.words.empty() ? "" : "; and test (count (commandline -opc)) -eq 2";
    for (const auto& [name, words] : c.commands)
      text += fmt::format("complete -c mailgrad -n '{}{}' -f -a {}{}\n", when_in(c), next, name, what(words));
    for (const declared_option& o : c.options) {
      std::string line = fmt::format("complete -c mailgrad -n '{}'", when_in(c));
      for (const std::string& name : o.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!o.values.empty())
        line += fmt::format(" {} -a '{}'", o.names.empty() ? "-f" : "-x", fmt::join(o.values, " "));
      else if (o.takes_value)
        line += " -r";
      if (!o.names.empty() || !o.values.empty()) text += line + what(o.what) + '\n';
    }
  }
  return text;
}

int print_completion(CLI::App& app, const std::string& shell) {
  const bool knows_lab = !app.get_subcommand("lab")->get_prefix_command();
  if (!knows_lab && std::filesystem::exists(program_of_lab())) return become_lab({"completion", shell});
  std::vector<declared_command> all;
  declare(app, "", all);
  std::cout << (shell == "bash" ? for_bash(all) : shell == "zsh" ? for_zsh(all) : for_fish(all));
  return exit_code::done;
}

} // namespace

command make_completion_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("completion", "Print a script by which a shell completes commands and options");
  const auto shell = std::make_shared<std::string>();
  option_table t(*parser);
  t.add("SHELL", *shell, one_of({"bash", "zsh", "fish"}), required, "The shell: bash, zsh or fish");
  parser->footer("Examples:\n"
                 "  source <(mailgrad completion bash)              in ~/.bashrc, or zsh in ~/.zshrc\n"
                 "  mailgrad completion fish | source               in ~/.config/fish/config.fish\n"
                 "An installed Mailgrad has brought these scripts along.");
  return {parser, [&app, shell] { return print_completion(app, *shell); }};
}

} // namespace mailgrad
