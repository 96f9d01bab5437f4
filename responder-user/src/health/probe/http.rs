//! HTTP: a GET whose status lies in one of the ranges is a success.
//!
//! Only the head of the reply is read; the connection is closed before the body. Redirects are replies like any other.

use std::{
    error::Error,
    fmt::Write,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use http_body_util::Empty;
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, CONNECTION, HOST, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::{Failure, io_detail, io_failure, tcp, within};

/// Longest head that is read, in bytes.
const MAX_HEAD: usize = 64 * 1024;
const AGENT: &str = concat!("responder/", env!("CARGO_PKG_VERSION"));

/// A request, prepared once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// The request line's target and the Host header, or why there is no such request.
    request: Result<(Uri, HeaderValue), String>,
    expect: Vec<(u16, u16)>,
}

impl Question {
    pub(super) fn new(target: SocketAddr, path: &str, host: Option<&str>, expect: &[(u16, u16)]) -> Self {
        let host = host.map_or_else(|| default_host(target), str::to_owned);
        let uri = path.parse::<Uri>().map_err(|e| format!("path \"{path}\" cannot be asked: {e}"));
        let request = uri.and_then(|uri| match HeaderValue::from_str(&host) {
            Ok(host) => Ok((uri, host)),
            Err(e) => Err(format!("host \"{host}\" cannot be sent: {e}")),
        });
        Self { request, expect: expect.to_vec() }
    }

    fn judge(&self, status: StatusCode) -> Result<String, Failure> {
        let code = status.as_u16();
        if self.expect.iter().any(|(low, high)| (*low..=*high).contains(&code)) {
            return Ok(status.as_str().to_owned());
        }
        let mut detail = format!("status {code}, expected ");
        for (i, (low, high)) in self.expect.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = if low == high {
                write!(detail, "{comma}{low}")
            } else {
                write!(detail, "{comma}{low}-{high}")
            };
        }
        Err(Failure::Peer(detail))
    }
}

/// The address, with the port unless it is the one of the scheme (RFC 9110 7.2).
fn default_host(target: SocketAddr) -> String {
    match target {
        SocketAddr::V4(v4) if v4.port() == 80 => v4.ip().to_string(),
        SocketAddr::V6(v6) if v6.port() == 80 => format!("[{}]", v6.ip()),
        other => other.to_string(),
    }
}

pub(super) async fn check(
    question: &Question,
    target: SocketAddr,
    deadline: Instant,
) -> Result<String, Failure> {
    let (uri, host) = question.request.as_ref().map_err(|why| Failure::Peer(why.clone()))?;
    let stream = tcp::connect(target, deadline).await?;
    let status = within(deadline, ", connected but no reply", exchange(stream, uri, host))
        .await?
        .map_err(|error| hyper_failure(&error))?;
    question.judge(status)
}

async fn exchange(stream: TcpStream, uri: &Uri, host: &HeaderValue) -> hyper::Result<StatusCode> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(Silent(stream)))
        .await?;
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, host.clone());
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut reply = pin!(sender.send_request(request));
    let mut connection = pin!(connection);
    let reply = tokio::select! {
        biased;
        reply = &mut reply => reply,
        // The connection is over: what it had to say has reached the reply, or its error has.
        _ = &mut connection => reply.await,
    };
    reply.map(|reply| reply.status())
}

/// A connection without a farewell: hyper says it at the end of every exchange, but the reset that follows ends the
/// connection anyhow, and a tenth of the cost of a check would go into it.
struct Silent(TcpStream);

impl AsyncRead for Silent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Silent {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn hyper_failure(error: &hyper::Error) -> Failure {
    if error.is_incomplete_message() {
        return Failure::Peer("closed before the reply was complete".to_owned());
    }
    if let Some(io) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        return match io.raw_os_error() {
            Some(code) => io_failure(io::Error::from_raw_os_error(code)),
            None => Failure::Peer(io_detail(io)),
        };
    }
    if error.is_parse() {
        return Failure::Peer(format!("not HTTP: {error}"));
    }
    Failure::Peer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(path: &str, host: Option<&str>, expect: &[(u16, u16)]) -> Question {
        Question::new(SocketAddr::from(([192, 0, 2, 1], 8080)), path, host, expect)
    }

    #[test]
    fn host_is_the_address_unless_configured() {
        let host = |target: &str| target.parse().map(default_host).ok();
        assert_eq!(host("192.0.2.1:80").as_deref(), Some("192.0.2.1"));
        assert_eq!(host("192.0.2.1:8080").as_deref(), Some("192.0.2.1:8080"));
        assert_eq!(host("[2001:db8::1]:80").as_deref(), Some("[2001:db8::1]"));
        assert_eq!(host("[2001:db8::1]:81").as_deref(), Some("[2001:db8::1]:81"));
    }

    #[test]
    fn every_range_counts_to_its_ends() {
        let question = question("/", None, &[(200, 204), (301, 301)]);
        for (code, good) in [(199, false), (200, true), (204, true), (205, false), (301, true), (302, false)]
        {
            let status = StatusCode::from_u16(code).expect("a status");
            assert_eq!(question.judge(status).is_ok(), good, "{code}");
        }
        let Err(Failure::Peer(detail)) = question.judge(StatusCode::SERVICE_UNAVAILABLE) else {
            panic!("503 passed")
        };
        assert_eq!(detail, "status 503, expected 200-204, 301");
    }

    #[test]
    fn what_cannot_be_asked_says_so() {
        let bad_path = question("/a b", None, &[]).request;
        assert!(bad_path.is_err_and(|why| why.starts_with("path \"/a b\" cannot be asked")));
        let bad_host = question("/", Some("a\nb"), &[]).request;
        assert!(bad_host.is_err_and(|why| why.contains("cannot be sent")));
    }
}
