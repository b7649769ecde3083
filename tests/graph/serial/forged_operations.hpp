#pragma once

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::test {

/// Changes some bytes: flips of bits, small and large numbers, cuts, doubled and removed parts.
inline void damage(std::string& text, std::mt19937_64& draw) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
  for (std::size_t times = 1 + below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = below(text.size()), length = std::min(below(9), text.size() - at);
    switch (below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(below(256));
      break;
    case 2:
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), length, '\xff');
      break;
    case 3: // a huge number in place of a small one
      if ((text[at] & 0xf0) == 0x10 || (text[at] & 0xf0) == 0x50)
        text.replace(at, 1 + static_cast<std::size_t>(text[at] & 0x0f),
                     std::string(1, static_cast<char>((text[at] & 0xf0) | 8)) + std::string(8, '\x7f'));
      break;
    case 4:
      text.erase(at, length);
      break;
    case 5:
      text.insert(at, text.substr(below(text.size()), length));
      break;
    default:
      if (below(10) == 0) text.resize(at);
    }
  }
}

/// The operations of a graph with operands and attributes that somebody else chose. What an operation does
/// not refuse, it has to be able to run.
class forged_operations {
public:
  forged_operations(const graph_image& image, const operation_registry& known, std::mt19937_64& draw)
      : image_(image), known_(known), draw_(draw) {
    for (const node_image& n : image.nodes) made_.push_back(add(n));
  }

  /// Runs some of them, with zeros for inputs. A kernel may refuse values by an exception.
  void run() {
    std::vector<value> wanted;
    for (int i = 0; i < 8; ++i) wanted.push_back(any());
    try {
      trial_run(wanted, {}).run();
    } catch (const std::exception&) {
    }
  }

  std::size_t accepted = 0; ///< operations that were forged and not refused

private:
  static constexpr std::size_t most_bytes = 1 << 16;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(draw_() % n); }
  const value& any() {
    const auto& outputs = made_[below(made_.size())];
    return outputs[below(outputs.size())];
  }

  std::vector<value> add(const node_image& n) {
    if (n.what == node_image::kind::variable)
      return {g_.variable(image_.texts[n.name], n.outputs[0].dims, n.first_values)};
    if (n.what == node_image::kind::constant) {
      tensor t(n.outputs[0].dims, n.outputs[0].type);
      std::memcpy(t.data(), n.values.data(), n.values.size_bytes());
      return {g_.constant(std::move(t))};
    }
    try {
      return apply(n);
    } catch (const std::exception&) {
      std::vector<value> others;
      for (std::size_t i = 0; i < n.outputs.size(); ++i) others.push_back(any());
      return others;
    }
  }

  std::vector<value> apply(const node_image& n) {
    std::vector<value> operands;
    for (const value_image& v : n.operands) operands.push_back(made_[v.node][v.output]);
    std::string attributes = n.attributes;
    const bool forged = below(20) == 0;
    if (forged) {
      const std::size_t how = below(4);
      if (how == 0) damage(attributes, draw_);
      if (how == 1) operands.pop_back();
      if (how == 2) operands.push_back(any());
      if (how == 3) operands[below(operands.size())] = any();
    }
    byte_archive_reader from(attributes);
    std::vector<value> made = g_.apply(known_.make(image_.texts[n.name], from), std::move(operands),
                                       std::source_location::current());
    for (const value& v : made)
      if (v.dims().size() > most_bytes) throw std::length_error("too large to run");
    if (made.size() < n.outputs.size()) throw std::length_error("too few values for those who read them");
    accepted += forged;
    return made;
  }

  const graph_image& image_;
  const operation_registry& known_;
  std::mt19937_64& draw_;
  graph g_;
  std::vector<std::vector<value>> made_;
};

} // namespace mailgrad::test
