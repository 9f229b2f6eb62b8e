# cmake --install BUILD --prefix PREFIX: PREFIX/bin/tessera; jobs, inputs, postprocess, helpers, peers and
# the manual in PREFIX/share/tessera.
include(GNUInstallDirs)

install(TARGETS tessera RUNTIME)
set(shared ${CMAKE_INSTALL_DATADIR}/tessera)
install(DIRECTORY inputs postprocess helpers DESTINATION ${shared} USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(DIRECTORY docs/manual DESTINATION ${shared}/docs)
install(DIRECTORY jobs DESTINATION ${shared} USE_SOURCE_PERMISSIONS
  REGEX "/(setup|quickstart)\\.sh$" EXCLUDE  # they build
  PATTERN site.sh EXCLUDE)

# PyTorch's side of the studies.
install(DIRECTORY tests/peers/ DESTINATION ${shared}/peers USE_SOURCE_PERMISSIONS FILES_MATCHING
  PATTERN "*.py" PATTERN "*.sh" PATTERN requirements.txt PATTERN README.md
  PATTERN "test_*" EXCLUDE PATTERN with_torch.py EXCLUDE PATTERN __pycache__ EXCLUDE)

# Who installs again keeps the site.sh that was edited for the cluster.
install(CODE "
  set(jobs \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${shared}/jobs\")
  if(EXISTS \"\${jobs}/site.sh\")
    message(STATUS \"Kept: \${jobs}/site.sh\")
  else()
    file(COPY \"${CMAKE_SOURCE_DIR}/jobs/site.sh\" DESTINATION \"\${jobs}\")
  endif()")
