# cmake --install BUILD --prefix PREFIX: PREFIX/bin/tessera; jobs, inputs and postprocess in PREFIX/share/tessera.
include(GNUInstallDirs)

install(TARGETS tessera RUNTIME)
set(shared ${CMAKE_INSTALL_DATADIR}/tessera)
install(DIRECTORY inputs postprocess DESTINATION ${shared} USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(DIRECTORY jobs DESTINATION ${shared} USE_SOURCE_PERMISSIONS
  REGEX "/(setup|quickstart)\\.sh$" EXCLUDE  # they build
  PATTERN site.sh EXCLUDE)

# Who installs again keeps the site.sh that was edited for the cluster.
install(CODE "
  set(jobs \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${shared}/jobs\")
  if(EXISTS \"\${jobs}/site.sh\")
    message(STATUS \"Kept: \${jobs}/site.sh\")
  else()
    file(COPY \"${CMAKE_SOURCE_DIR}/jobs/site.sh\" DESTINATION \"\${jobs}\")
  endif()")
