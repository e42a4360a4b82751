import com.google.gson.JsonObject;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.zip.Deflater;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Random configurations and random messages for RocketMQ's own store; the same seed gives
 * the same ones.
 *
 * <p>All kinds of messages: normal, compressed, delayed, of the timer, half, commit,
 * rollback, what ends a half one, batches, light queues, long topics; properties of every byte, without an entry, with a checksum that
 * another record has; a clock that steps; and topics that are deleted and made again.
 */
final class RandomStore {
    private static final String SCHEDULED = "SCHEDULE_TOPIC_XXXX";
    private static final String TIMER = "rmq_sys_wheel_timer";
    private static final String[] TRANSACTIONS = {
        "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    };
    private static final int ZLIB = 0x301;
    // RocketMQ ends its log at a level that Integer.parseInt refuses: none of these.
    private static final String[] DELAYS = {
        "1", "2", "18", "+3", "19", "0", "-1", "007", "\u0663", "-0", "99999"
    };
    private static final String[] NAMES = {
        "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "a", "trace", "__CRC32#", "INNER_NUM",
        "DELAY", "\u00e9", "\ud83d\ude00"
    };
    private static final int[] SYS_FLAGS = {0, 0, 0, 0, 4, 8, 12, 2, 0x300};

    private final Random random;
    private final boolean isOdd;

    /**
     * Draws from a seed.
     *
     * @param isOdd whether properties may hold bytes that no client writes
     */
    RandomStore(long seed, boolean isOdd) {
        random = new Random(seed);
        this.isOdd = isOdd;
    }

    /** A clock that the test sets: RocketMQ asks it for each store time. */
    static final class SteppingClock extends SystemClock {
        volatile long stepMs;

        @Override
        public long now() {
            return System.currentTimeMillis() + stepMs;
        }
    }

    /** Keys of MessageStoreConfig; a version ignores those that it does not have. */
    JsonObject configuration() {
        JsonObject keys = new JsonObject();
        keys.addProperty("mappedFileSizeCommitLog", pick(65536, 131072));
        keys.addProperty("mappedFileSizeConsumeQueue", pick(400, 2000, 6000));
        keys.addProperty("mappedFileSizeConsumeQueueExt", 8192);
        keys.addProperty("maxHashSlotNum", 100);
        keys.addProperty("maxIndexNum", pick(40, 400));
        keys.addProperty("messageIndexEnable", !oneIn(4));
        keys.addProperty("enabledAppendPropCRC", oneIn(2));
        keys.addProperty("enableConsumeQueueExt", oneIn(8));
        keys.addProperty("putConsumeQueueDataByFileChannel", oneIn(2));
        keys.addProperty("flushDiskType", oneIn(3) ? "SYNC_FLUSH" : "ASYNC_FLUSH");
        keys.addProperty("flushIntervalCommitLog", pick(10, 500));
        keys.addProperty("flushIntervalConsumeQueue", pick(10, 1000));
        keys.addProperty("flushConsumeQueueLeastPages", pick(0, 2));
        keys.addProperty("flushCommitLogLeastPages", pick(0, 4));
        boolean isLight = oneIn(3);
        keys.addProperty("enableLmq", isLight);
        keys.addProperty("enableMultiDispatch", isLight);
        if (oneIn(4)) {
            keys.addProperty("messageDelayLevel", "2s 1m 3h 2d");
        }
        return keys;
    }

    /**
     * Puts messages.
     *
     * @return for each record that RocketMQ acknowledged: offset, size, queue offset
     */
    List<List<Long>> fill(DefaultMessageStore store, SteppingClock clock, int count)
        throws Exception {
        List<List<Long>> acknowledged = new ArrayList<>();
        while (acknowledged.size() < count) {
            if (oneIn(20)) {
                clock.stepMs += pick(-5000, -3_600_000, 1000, 3_600_000, -1);
            }
            PutMessageResult put = oneIn(8)
                ? store.putMessages(batch()) : store.putMessage(message());
            AppendMessageResult appended = put.getAppendMessageResult();
            if (appended != null && appended.isOk()) {
                for (int at = 0; at < Math.max(1, appended.getMsgNum()); at++) {
                    acknowledged.add(List.of(appended.getWroteOffset(),
                        (long) appended.getWroteBytes(), appended.getLogicsOffset() + at));
                }
            } else {
                // Refused: the message was too odd for this version.
                acknowledged.add(List.of(-1L, 0L, 0L));
            }
        }
        acknowledged.removeIf(each -> each.get(0) < 0);
        return acknowledged;
    }

    /** Topics to delete, of those that the messages have. */
    Set<String> topics() {
        return Set.of("T" + random.nextInt(2), "T" + (2 + random.nextInt(2)));
    }

    private MessageExtBrokerInner message() throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        route(message);
        message.setBody(body());
        message.setSysFlag(SYS_FLAGS[random.nextInt(SYS_FLAGS.length)]);
        if (oneIn(6)) {
            message.setTopic(SCHEDULED);
        } else if (oneIn(10)) {
            message.setTopic(TIMER);
            message.setQueueId(0);
        } else if (oneIn(8)) {
            message.setTopic(TRANSACTIONS[random.nextInt(TRANSACTIONS.length)]);
            message.setQueueId(0);
            message.setSysFlag(0);
        }
        if (oneIn(10)) {
            message.setBody(compressed(message.getBody()));
            message.setSysFlag(message.getSysFlag() & 12 | ZLIB);
        }
        if ((message.getSysFlag() & 12) != 0) {
            message.setPreparedTransactionOffset(random.nextInt(1_000_000));
        }
        String properties = properties(message.getTopic());
        if ((message.getSysFlag() & 12) % 8 == 4) {
            // Such a record has no entry. A broker stores it without the flag; RocketMQ
            // counts it in a light queue, and puts the next one at another offset.
            properties = properties.replace("INNER_MULTI_DISPATCH", "outer");
        }
        MessageAccessor.setProperties(
            message, MessageDecoder.string2messageProperties(properties));
        message.setPropertiesString(properties);
        return message;
    }

    private MessageExtBatch batch() throws Exception {
        MessageExtBatch batch = new MessageExtBatch();
        route(batch);
        ByteBuffer entries = ByteBuffer.allocate(32768);
        for (int left = 1 + random.nextInt(6); left > 0; left--) {
            byte[] body = body();
            byte[] properties = oneIn(3) && isOdd ? bytes(random.nextInt(60))
                : properties(batch.getTopic()).getBytes(StandardCharsets.UTF_8);
            if (entries.remaining() < 22 + body.length + properties.length) {
                break;
            }
            entries.putInt(22 + body.length + properties.length).putInt(0).putInt(0)
                .putInt(random.nextInt()).putInt(body.length).put(body)
                .putShort((short) properties.length).put(properties);
        }
        byte[] form = new byte[entries.position()];
        entries.flip().get(form);
        batch.setBody(form);
        return batch;
    }

    private void route(MessageExtBrokerInner message) throws Exception {
        String topic = "T" + random.nextInt(4);
        if (oneIn(10)) {
            topic = "L".repeat(128 + random.nextInt(60));
        }
        message.setTopic(topic);
        message.setQueueId(random.nextInt(3));
        message.setFlag(random.nextInt());
        message.setBornTimestamp(1_700_000_000_000L + random.nextInt(1_000_000));
        message.setReconsumeTimes(random.nextInt(3));
        String host = oneIn(5) ? "2001:db8::1" : "10.0.0.1";
        message.setBornHost(new InetSocketAddress(InetAddress.getByName(host), 4000));
        message.setStoreHost(new InetSocketAddress(InetAddress.getByName("10.0.0.2"), 10911));
    }

    private byte[] body() {
        byte[] body = bytes(oneIn(12) ? random.nextInt(9000) : random.nextInt(400));
        if (oneIn(20)) {
            return new byte[body.length]; // zeros, as a hole in the file would be
        }
        return body;
    }

    private static byte[] compressed(byte[] body) {
        Deflater deflater = new Deflater();
        deflater.setInput(body);
        deflater.finish();
        byte[] room = new byte[body.length + 100];
        int size = deflater.deflate(room);
        deflater.end();
        return Arrays.copyOf(room, size);
    }

    private byte[] bytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    private String properties(String topic) {
        if (isOdd && oneIn(10)) {
            String[] odd = {
                "\u0002\u0002", "no entry", "\u0001", "k\u0001", "\u0001v\u0002",
                "__CRC32#\u00010123456789\u0002", "a\u0001b\u0002__CRC32#\u00019999999999\u0002",
                "k\u0001a\u0000b\u0002", "\u0000", "a\u0001\u0000\u0002", "x\u0001y\u0002\u0000\u0000"
            };
            return odd[random.nextInt(odd.length)];
        }
        Map<String, String> entries = new LinkedHashMap<>();
        for (int left = random.nextInt(4); left > 0; left--) {
            entries.put(NAMES[random.nextInt(isOdd ? NAMES.length : 6)], value());
        }
        if (topic.equals(SCHEDULED)) {
            entries.put("DELAY", DELAYS[random.nextInt(DELAYS.length)]);
        } else if (topic.equals(TIMER)) {
            entries.put("TIMER_OUT_MS", Long.toString(1_800_000_000_000L + random.nextInt()));
            entries.put("REAL_TOPIC", "T" + random.nextInt(4));
            entries.put("REAL_QID", "" + random.nextInt(3));
        } else if (topic.equals(TRANSACTIONS[1])) {
            entries.put("TAGS", "d");
        }
        if (oneIn(5)) {
            String queues = "%LMQ%q" + random.nextInt(3);
            entries.put("INNER_MULTI_DISPATCH",
                oneIn(2) ? queues : queues + ",%LMQ%r" + random.nextInt(2));
        }
        return MessageDecoder.messageProperties2String(entries);
    }

    private String value() {
        if (!isOdd || oneIn(2)) {
            return "value" + random.nextInt(100);
        }
        StringBuilder text = new StringBuilder();
        for (int left = 1 + random.nextInt(8); left > 0; left--) {
            text.append((char) (oneIn(6) ? random.nextInt(0x10000) : random.nextInt(256)));
        }
        return text.toString();
    }

    private boolean oneIn(int count) {
        return random.nextInt(count) == 0;
    }

    private int pick(int... values) {
        return values[random.nextInt(values.length)];
    }
}
