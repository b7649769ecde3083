#pragma once

#include <mailgrad/tensor/device.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// What a worker computes on, in words that are the same on all machines where it rounds the same.
struct worker_computer {
  std::string name;       ///< "NVIDIA H100", "the host", or several: "NVIDIA H100 and the host"
  std::string products{}; ///< what multiplies on its cards, with its version; empty: it has no card

  bool has_card() const noexcept { return !products.empty(); }

  friend bool operator==(const worker_computer&, const worker_computer&) = default;
};

/// "NVIDIA H100", or "the host".
std::string computer_in_words(device d);

/// What multiplies on the cards of this machine; "none" if nothing does.
std::string products_here();

/// What these devices of this machine are.
worker_computer computer_of(const std::vector<device>& devices);

/// "NVIDIA H100, the host": what each worker computes on.
std::string names_in_words(const std::vector<worker_computer>& all);

/// What multiplies on their cards: one version, or several if these differ; "none" if nobody has a card.
std::string products_in_words(const std::vector<worker_computer>& all);

bool any_has_card(const std::vector<worker_computer>& all) noexcept;

} // namespace mailgrad
