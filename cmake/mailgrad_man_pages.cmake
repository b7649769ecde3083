# Writes the manual page of the tool out of what the tool itself says, so that the two cannot differ:
#
#   cmake -DTOOL=path/of/mailgrad -DVERSION=0.1.0 -DPAGE=mailgrad.1 -P mailgrad_man_page.cmake

# Sets `out` to what `mailgrad ARGN --help` prints, as lines that a manual page shows as they are.
function(mailgrad_help out)
  execute_process(COMMAND ${TOOL} ${ARGN} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}") # would be taken for a request
  set(${out} ".nf\n${text}.fi\n" PARENT_SCOPE)
endfunction()

mailgrad_help(about)
string(REGEX MATCH "Exit codes:.*" status "${about}") # the last lines, which have a section of their own
string(REGEX REPLACE "\nExit codes:.*" "\n.fi\n" description "${about}")
if(NOT status)
  message(FATAL_ERROR "mailgrad_man_page.cmake: ${TOOL} --help ends without its exit codes.")
endif()
set(page ".TH MAILGRAD 1 \"\" \"Mailgrad ${VERSION}\"\n.SH NAME\n")
string(APPEND page "mailgrad \\- trains neural networks with actors\n")
string(APPEND page ".SH SYNOPSIS\n.B mailgrad\n.I COMMAND\n[\\fIOPTION\\fR]...\n")
string(APPEND page ".SH DESCRIPTION\n${description}")
string(REGEX REPLACE ".*\nSubcommands:" "" commands "${about}")
string(REGEX MATCHALL "\n  [a-z]+ " commands "${commands}")
if(NOT commands)
  message(FATAL_ERROR "mailgrad_man_page.cmake: ${TOOL} --help lists no commands under 'Subcommands:'.")
endif()
foreach(command IN LISTS commands)
  string(STRIP "${command}" command)
  mailgrad_help(usage ${command})
  string(TOUPPER ${command} title)
  string(APPEND page ".SH ${title}\n${usage}")
endforeach()
string(APPEND page ".SH EXIT STATUS\n.nf\n${status}")
string(APPEND page ".SH SEE ALSO\nREADME.md and docs/ in share/doc/mailgrad of the folder that Mailgrad is installed in.\n")
file(WRITE ${PAGE} "${page}")
