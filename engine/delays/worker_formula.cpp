#include <mailgrad/engine/delays/worker_formula.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace mailgrad {

namespace {

/// Computes a formula from left to right, by recursive descent: a sum of products of powers.
class formula_reader {
public:
  formula_reader(std::string_view text, double i, double n) : text_(text), i_(i), n_(n) {}

  double whole() {
    const double result = sum();
    if (at_ != text_.size()) fail("an operator");
    return result;
  }

private:
  static constexpr int deepest = 64; ///< parentheses and signs within each other

  [[noreturn]] void fail(std::string_view expected) const {
    const std::string found = at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "its end";
    throw std::invalid_argument(fmt::format(
        "'{}' is no formula of i, as sqrt(i) or 1+4*i are: expected {}, found {}", text_, expected, found));
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  double sum() {
    double result = product();
    for (;;) {
      if (take("+"))
        result += product();
      else if (take("-"))
        result -= product();
      else
        return result;
    }
  }

  double product() {
    double result = signed_power();
    for (;;) {
      if (take("*"))
        result *= signed_power();
      else if (take("/"))
        result /= signed_power();
      else
        return result;
    }
  }

  double signed_power() {
    if (++depth_ > deepest) fail("less depth");
    const double result = take("-") ? -signed_power() : power();
    --depth_;
    return result;
  }

  double power() {
    const double base = atom();
    return take("^") ? std::pow(base, signed_power()) : base;
  }

  double atom() {
    if (take("sqrt(")) return std::sqrt(in_parentheses());
    if (take("(")) return in_parentheses();
    if (take("i")) return i_;
    if (take("n")) return n_;
    return number();
  }

  double in_parentheses() {
    const double result = sum();
    if (!take(")")) fail("')'");
    return result;
  }

  double number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    double result = 0;
    const bool begins = begin != end && (*begin == '.' || (*begin >= '0' && *begin <= '9'));
    const auto read = begins ? std::from_chars(begin, end, result)
                             : std::from_chars_result{begin, std::errc::invalid_argument};
    if (read.ec != std::errc{}) fail("a number, i, n, sqrt() or '('");
    at_ += static_cast<std::size_t>(read.ptr - begin);
    return result;
  }

  std::string_view text_;
  double i_;
  double n_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

worker_formula::worker_formula(std::string_view text) : text_(text) { of(0, 1); }

double worker_formula::of(std::uint32_t worker, std::uint32_t workers) const {
  return formula_reader(text_, static_cast<double>(worker) + 1, workers).whole();
}

} // namespace mailgrad
