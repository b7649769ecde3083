# Chart.js, which draws on the live page (Debian: libjs-chart.js): CHARTJS_FILE is its minified script.
find_file(CHARTJS_FILE NAMES chart.min.js chart.umd.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist PATH_SUFFIXES share/javascript/chart.js)
mark_as_advanced(CHARTJS_FILE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CHARTJS REQUIRED_VARS CHARTJS_FILE
  REASON_FAILURE_MESSAGE "install Chart.js (Debian: libjs-chart.js)")
