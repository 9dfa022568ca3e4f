# Rewrites cargo's dependency file for the copied archive: cmake -DINPUT=... -DOUTPUT=... -DTARGET=... -P RustDepfile.cmake
file(READ ${INPUT} text)
string(REGEX REPLACE "^[^:]*:" "" sources "${text}")
file(WRITE ${OUTPUT} "${TARGET}:${sources}")
