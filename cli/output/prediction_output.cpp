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

void prediction_output::write_header(bool names_files) {
  const std::size_t outputs = card_.request.outputs();
  std::string line = names_files ? "file," : "";
  if (card_.request.wanted == answer::a_class) {
    line += "class,probability";
    for (std::size_t c = 0; c < outputs; ++c) line += ',' + field(name_of(card_, c));
  } else if (outputs == 1) {
    line += "number";
  } else {
    for (std::size_t i = 0; i < outputs; ++i) line += fmt::format("{}number{}", i == 0 ? "" : ",", i + 1);
  }
  out_ << line << '\n';
}

void prediction_output::write(std::span<const float> answers, std::span<const std::filesystem::path> files) {
  if (!begun_ && form_ == form::csv) write_header(!files.empty());
  begun_ = true;
  const std::size_t outputs = card_.request.outputs();
  for (std::size_t i = 0; i * outputs < answers.size(); ++i) {
    const std::filesystem::path* const file = files.empty() ? nullptr : &files[i];
    errno = 0;
    if (form_ == form::csv)
      write_csv(answers.subspan(i * outputs, outputs), file);
    else
      write_json(answers.subspan(i * outputs, outputs), file);
    if (!out_) throw answers_not_written(errno != 0 ? errno : EIO);
  }
}

/// Makes probabilities of a row of logits. Returns the likeliest class.
std::size_t prediction_output::likeliest_in_row() {
  softmax_rows(row_, row_.size());
  return static_cast<std::size_t>(std::ranges::max_element(row_) - row_.begin());
}

void prediction_output::write_csv(std::span<const float> found, const std::filesystem::path* file) {
  row_.assign(found.begin(), found.end());
  if (file != nullptr) out_ << field(file->string()) << ',';
  if (card_.request.wanted == answer::a_class) {
    const std::size_t c = likeliest_in_row();
    out_ << fmt::format("{},{},", field(name_of(card_, c)), row_[c]);
  }
  out_ << fmt::format("{}\n", fmt::join(row_, ","));
}

void prediction_output::write_json(std::span<const float> found, const std::filesystem::path* file) {
  row_.assign(found.begin(), found.end());
  json object;
  if (file != nullptr) object["file"] = file->string();
  if (card_.request.wanted == answer::a_class) {
    const std::size_t c = likeliest_in_row();
    object["class"] = name_of(card_, c);
    object["probability"] = row_[c];
    object["probabilities"] = row_;
  } else {
    object["numbers"] = row_;
  }
  out_ << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
}

} // namespace mailgrad
