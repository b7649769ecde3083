# Writes the manual pages of the tool, one of it and one of each command, out of what the tool itself says, so that the two
# cannot differ:
#
#   cmake -DTOOL=path/of/mailgrad -DVERSION=0.1.0 -DFOLDER=man1 -P mailgrad_man_pages.cmake

# Sets `out` to what `mailgrad ARGN --help` prints, as lines that a manual page shows as they are.
function(mailgrad_help out)
  execute_process(COMMAND ${TOOL} ${ARGN} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}") # would be taken for a request
  set(${out} ".nf\n${text}.fi\n" PARENT_SCOPE)
endfunction()

# Sets `out` to the names of the commands that a help lists.
function(mailgrad_commands out help)
  set(names)
  foreach(title Subcommands Experiments)
    string(REGEX REPLACE ".*\n${title}:" "" list "${help}")
    if(NOT list STREQUAL help)
      string(REGEX REPLACE "\n\n.*" "\n" list "${list}")
      string(REGEX MATCHALL "\n  [a-z\\-]+ " list "${list}")
      string(REGEX REPLACE "[\n \\]" "" list "${list}")
      list(APPEND names ${list})
    endif()
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# Writes FOLDER/NAME.1 with a section of the help of each of its commands.
function(mailgrad_write_page name command)
  mailgrad_help(help ${command})
  string(REGEX MATCH "^.nf\n([^\n]*)" first "${help}")
  set(what "${CMAKE_MATCH_1}")
  string(TOUPPER ${name} title)
  set(page ".TH ${title} 1 \"\" \"Mailgrad ${VERSION}\"\n.SH NAME\n${name} \\- ${what}\n.SH DESCRIPTION\n${help}")
  mailgrad_commands(below "${help}")
  foreach(one IN LISTS below)
    mailgrad_help(help ${command} ${one})
    string(TOUPPER ${one} title)
    string(APPEND page ".SH ${title}\n${help}")
  endforeach()
  string(APPEND page ".SH SEE ALSO\n.BR mailgrad (1)\n")
  file(WRITE ${FOLDER}/${name}.1 "${page}")
endfunction()

mailgrad_help(about)
string(REGEX MATCH "Exit codes:.*" status "${about}") # the last lines, which have a section of their own
string(REGEX REPLACE "\nExit codes:.*" "\n.fi\n" description "${about}")
if(NOT status)
  message(FATAL_ERROR "mailgrad_man_pages.cmake: ${TOOL} --help ends without its exit codes.")
endif()
mailgrad_commands(commands "${about}")
if(NOT commands)
  message(FATAL_ERROR "mailgrad_man_pages.cmake: ${TOOL} --help lists no commands under 'Subcommands:'.")
endif()
set(page ".TH MAILGRAD 1 \"\" \"Mailgrad ${VERSION}\"\n.SH NAME\n")
string(APPEND page "mailgrad \\- trains neural networks with actors\n")
string(APPEND page ".SH SYNOPSIS\n.B mailgrad\n.I COMMAND\n[\\fIOPTION\\fR]...\n")
string(APPEND page ".SH DESCRIPTION\n${description}.SH EXIT STATUS\n.nf\n${status}.SH SEE ALSO\n")
foreach(command IN LISTS commands)
  mailgrad_write_page(mailgrad-${command} ${command})
  string(APPEND page ".BR mailgrad\\-${command} (1),\n")
endforeach()
string(APPEND page "README.md and docs/ in share/doc/mailgrad of the folder that Mailgrad is installed in.\n")
file(WRITE ${FOLDER}/mailgrad.1 "${page}")
