#pragma once

#include <mailgrad/optim/cures/cure.hpp>

namespace mailgrad {

/// The answers of a cure's functions of the same names, without an object of it.
struct cure_traits {
  bool has_factor = false;
  bool compensates = false;
  bool predicts = false;
  bool sees_variables = false;
  std::optional<float> pull{};
};

/// The cure that a user chose, parsed once from the text of an option.
///
/// It is "none", one of those that docs/cures.md lists with their memory, or a user's own: "mine:0.5" or
/// "./libmine.so:0.5".
class cure_spec {
public:
  /// Errors  std::invalid_argument in one line that says what would be right.
  cure_spec(std::string_view text, std::uint32_t workers);
  const std::string& text() const noexcept { return text_; }
  bool is_none() const noexcept { return make_ == nullptr; }
  const cure_traits& traits() const noexcept { return traits_; }
  /// Whether it is a user's, of a plug-in or compiled into the program.
  bool is_custom() const noexcept { return own_; }

  /// The cure for a shard; null for "none".
  /// Errors  std::bad_alloc.
  std::unique_ptr<cure> make(const cure_site& site) const;

  /// Errors  as cure::require_fits().
  void require_fits(const cure_setting& setting) const;
  /// The optimiser that the shard uses in place of the one that the user chose.
  optimizer_options adapted(optimizer_options asked) const;

private:
  using maker = std::unique_ptr<cure> (*)(std::span<const double>, const cure_site&);

  std::string text_;
  std::uint32_t workers_;
  maker make_ = nullptr;
  std::vector<double> numbers_; ///< after the colon
  cure_traits traits_;
  bool own_ = false;
};

std::vector<cure_form> cure_forms();

/// The file of the plug-in that an option names, if it names one; the file is not opened.
std::vector<std::string> plugins_of_cure(std::string_view text);

/// Errors  as cure_spec and cure_spec::make().
std::unique_ptr<cure> make_cure(std::string_view text, const cure_site& site);

} // namespace mailgrad
