#include <mailgrad/lab/theory/students_quantile.hpp>

#include <boost/math/distributions/students_t.hpp>

#include <limits>

namespace mailgrad::lab {

double students_quantile(std::uint64_t freedom, double beyond) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  const boost::math::students_t law(static_cast<double>(freedom));
  return boost::math::quantile(boost::math::complement(law, beyond / 2));
}

} // namespace mailgrad::lab
