#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace mailgrad {

namespace {

/// Runs the model on one window of tokens, which shifts to the left when it is full.
class writer {
public:
  explicit writer(tested_model& model)
      : classes_(model.request().classes), length_(model.request().sample_dims[0]), weights_(model.weights()),
        model_(
            model.build(), request_of(model), model.layout(),
            [](graph&, const model_outputs& outputs) { return std::vector{outputs.logits}; }, model.place()) {
    window_.features = tensor({1, length_}, dtype::int32);
    window_.labels = tensor({1, length_}, dtype::int32);
  }

  void append(std::int32_t token) {
    const auto tokens = window_.features.values<std::int32_t>();
    if (used_ == length_)
      std::copy(tokens.begin() + 1, tokens.end(), tokens.begin());
    else
      ++used_;
    tokens[used_ - 1] = token;
  }

  /// The logits of the token after the last one.
  std::span<const float> next() {
    model_.run(window_, weights_);
    return {model_.fetched(0) + (used_ - 1) * classes_, classes_};
  }

private:
  static model_request request_of(const tested_model& model) {
    model_request request = model.request();
    request.batch = 1;
    request.purpose = phase::evaluation;
    return request;
  }

  std::size_t classes_;
  std::size_t length_;
  std::size_t used_ = 0;
  batch window_;
  const weight_addresses& weights_;
  placed_model model_;
};

/// Draws a token by its probability; `chance` is uniform in [0, 1).
std::int32_t draw(std::span<const float> logits, double temperature, double chance) {
  const auto likeliest = std::ranges::max_element(logits);
  const auto weight = [&](float logit) {
    return std::exp(static_cast<double>(logit - *likeliest) / temperature);
  };
  double sum = 0;
  for (const float logit : logits) sum += weight(logit);
  double left = chance * sum;
  if (temperature > 0)
    for (std::size_t i = 0; i < logits.size(); ++i)
      if ((left -= weight(logits[i])) < 0) return static_cast<std::int32_t>(i);
  return static_cast<std::int32_t>(likeliest - logits.begin()); // also after a rounding error
}

/// The character that a text begins with, as a terminal can show it.
std::string first_of(std::string_view text) {
  const auto first = first_character({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  if (!first) return fmt::format("byte {:#04x}", static_cast<unsigned char>(text.front()));
  const bool shown = first->code >= 0x20 && (first->code < 0x7f || first->code > 0x9f);
  return fmt::format("{}U+{:04X}", shown ? fmt::format("'{}', ", text.substr(0, first->length)) : "",
                     first->code);
}

/// The prompt as tokens, of which there is at least one.
std::vector<std::int32_t> tokens_of(std::string_view prompt, std::span<const std::string> symbols) {
  if (prompt.empty()) {
    const auto line_break = std::ranges::find(symbols, "\n");
    return {line_break == symbols.end() ? 0 : static_cast<std::int32_t>(line_break - symbols.begin())};
  }
  std::vector<std::int32_t> tokens;
  while (!prompt.empty()) {
    const auto known = std::ranges::find_if(
        symbols, [&](const std::string& s) { return !s.empty() && prompt.starts_with(s); });
    if (known == symbols.end())
      throw std::invalid_argument(fmt::format("prompt: the model has not learnt character {}, {}",
                                              tokens.size() + 1, first_of(prompt)));
    tokens.push_back(static_cast<std::int32_t>(known - symbols.begin()));
    prompt.remove_prefix(known->size());
  }
  return tokens;
}

} // namespace

void require_writable(const text_sample_options& options, std::span<const std::string> symbols,
                      std::size_t classes) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw std::invalid_argument(
        fmt::format("temperature: {:f}; a number from 0 on is needed", options.temperature));
  if (symbols.empty() || symbols.size() != classes)
    throw std::invalid_argument(
        fmt::format("a text needs a symbol for each of {} classes, not {}", classes, symbols.size()));
}

std::string write_text(const model_function& build, model_request request, const parameter_layout& layout,
                       std::span<const float> parameters, std::span<const std::string> symbols,
                       const text_sample_options& options) {
  require_writable(options, symbols, request.classes);
  tested_model model(build, std::move(request), layout);
  model.use("write_text", parameters);
  return write_text(model, symbols, options);
}

std::string write_text(tested_model& model, std::span<const std::string> symbols,
                       const text_sample_options& options) {
  const model_request& request = model.request();
  require_writable(options, symbols, request.classes);
  if (request.features != feature_kind::tokens || request.sample_dims.rank() != 1 ||
      request.sample_dims[0] == 0)
    throw std::invalid_argument("write_text: a model of windows of tokens is needed, not one of samples of " +
                                to_string(request.sample_dims));
  const std::vector<std::int32_t> prompt = tokens_of(options.prompt, symbols);
  writer w = naming_memory("the values of a text",
                           [&model] { return model.with_room([&model] { return writer(model); }); });
  for (const std::int32_t token : prompt) w.append(token);
  std::mt19937_64 random(options.seed);
  std::string text;
  for (std::size_t i = 0; i < options.length; ++i) {
    const double chance = static_cast<double>(random() >> 11) * 0x1p-53;
    const std::int32_t token = draw(w.next(), options.temperature, chance);
    w.append(token);
    text += symbols[static_cast<std::size_t>(token)];
  }
  return text;
}

} // namespace mailgrad
