//! A client that sends what no well-behaved client can: bytes of its own in the protocol's frames.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::url;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
/// The flag of the property `type` in a header frame.
const TYPE: u16 = 0x0020;

/// Publishes a body with these bytes as its AMQP `type`, and waits for the confirm.
pub async fn publish(exchange: &str, kind: &[u8], body: &[u8]) {
    let url: url::Url = url().parse().unwrap();
    let port = url.port().unwrap_or(5672);
    let mut socket = TcpStream::connect((url.host_str().unwrap(), port)).await.unwrap();
    socket.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
    read(&mut socket).await;
    let login = format!("\0{}\0{}", url.username(), url.password().unwrap_or_default());
    let start_ok =
        [&[0; 4], &*short(b"PLAIN"), &(login.len() as u32).to_be_bytes(), login.as_bytes(), &short(b"en_US")];
    call(&mut socket, 0, (10, 11), &start_ok.concat()).await;
    write(&mut socket, METHOD, 0, &method((10, 31), &[7, 255, 0, 2, 0, 0, 0, 0])).await;
    call(&mut socket, 0, (10, 40), &[&*short(b"/"), &short(b""), &[0]].concat()).await;
    call(&mut socket, 1, (20, 10), &short(b"")).await;
    call(&mut socket, 1, (85, 10), &[0]).await;
    let publish = [&[0, 0], &*short(exchange.as_bytes()), &short(b"raw"), &[0]].concat();
    write(&mut socket, METHOD, 1, &method((60, 40), &publish)).await;
    let size = (body.len() as u64).to_be_bytes();
    let header = [&[0, 60, 0, 0], &size[..], &TYPE.to_be_bytes(), &short(kind)].concat();
    write(&mut socket, HEADER, 1, &header).await;
    write(&mut socket, BODY, 1, body).await;
    assert_eq!(read(&mut socket).await[..4], [0, 60, 0, 80], "basic.ack");
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

fn method((class, method): (u16, u16), arguments: &[u8]) -> Vec<u8> {
    [&class.to_be_bytes(), &method.to_be_bytes(), arguments].concat()
}

async fn call(socket: &mut TcpStream, channel: u16, name: (u16, u16), arguments: &[u8]) {
    write(socket, METHOD, channel, &method(name, arguments)).await;
    read(socket).await;
}

async fn write(socket: &mut TcpStream, kind: u8, channel: u16, payload: &[u8]) {
    let size = (payload.len() as u32).to_be_bytes();
    let frame = [&[kind], &channel.to_be_bytes()[..], &size, payload, &[0xce]].concat();
    socket.write_all(&frame).await.unwrap();
}

async fn read(socket: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 7];
    socket.read_exact(&mut head).await.unwrap();
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let mut payload = vec![0; size as usize + 1];
    socket.read_exact(&mut payload).await.unwrap();
    payload
}
