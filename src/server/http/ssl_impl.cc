// What of Asio's TLS is no template, compiled once.
#include <boost/asio/ssl/impl/src.hpp>
