#include <mailgrad/cli/output/prediction_output.hpp>

#include <mailgrad/engine/weights/predictor.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <string>
#include <system_error>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

/// A field of RFC 4180: quoted where it holds a comma, a quote or a line break.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string name_of(const model_card& card, std::size_t c) {
  return card.class_names.empty() ? std::to_string(c) : card.class_names[c];
}

} // namespace

answers_not_written::answers_not_written(int code)
    : std::runtime_error("answers cannot be written: " + std::generic_category().message(code)), why(code) {}

prediction_output::prediction_output(std::ostream& out, const model_card& card, form how)
    : out_(out), card_(card), form_(how) {}

void prediction_output::write_header() {
  const std::size_t outputs = card_.request.outputs();
  std::string line;
  if (card_.request.wanted == answer::a_class) {
    line = "class,probability";
    for (std::size_t c = 0; c < outputs; ++c) line += ',' + field(name_of(card_, c));
  } else if (outputs == 1) {
    line = "number";
  } else {
    for (std::size_t i = 0; i < outputs; ++i) line += fmt::format("{}number{}", i == 0 ? "" : ",", i + 1);
  }
  out_ << line << '\n';
}

void prediction_output::write(std::span<const float> answers) {
  if (!begun_ && form_ == form::csv) write_header();
  begun_ = true;
  const std::size_t outputs = card_.request.outputs();
  for (; !answers.empty(); answers = answers.subspan(outputs)) {
    errno = 0;
    write_one(answers.first(outputs));
    if (!out_) throw answers_not_written(errno != 0 ? errno : EIO);
  }
}

void prediction_output::write_one(std::span<const float> answer) {
  row_.assign(answer.begin(), answer.end());
  if (card_.request.wanted == answer::a_number) {
    if (form_ == form::json_lines)
      out_ << json{{"numbers", row_}}.dump() << '\n';
    else
      out_ << fmt::format("{}\n", fmt::join(row_, ","));
    return;
  }
  softmax_rows(row_, row_.size());
  const auto likeliest = std::ranges::max_element(row_);
  const std::string name = name_of(card_, static_cast<std::size_t>(likeliest - row_.begin()));
  if (form_ == form::json_lines)
    out_ << json{{"class", name}, {"probability", *likeliest}, {"probabilities", row_}}.dump(
                -1, ' ', false, json::error_handler_t::replace)
         << '\n';
  else
    out_ << fmt::format("{},{},{}\n", field(name), *likeliest, fmt::join(row_, ","));
}

} // namespace mailgrad
